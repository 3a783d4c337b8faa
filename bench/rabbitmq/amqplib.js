// Confirmed publishes by node's amqplib, with the same messages as the other clients: URL QUEUE SHAPE COUNT WINDOW
const amqp = require("amqplib");
const [url, queue, shape, countText, windowText] = process.argv.slice(2);
const count = Number(countText), window = Number(windowText);
const id = "0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10";
const body = `[[42], {"order": "${id}", "total": 1999}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`;
const shapes = {
  celery: { lang: "py", task: "orders.process", id, shadow: null, eta: null, expires: null, group: null, group_index: null,
    retries: "0", timelimit: null, root_id: id, parent_id: null, argsrepr: "(42,)", kwargsrepr: "{}", origin: "gen1234@host",
    ignore_result: "false" },
  event: { "pillarbox-event-id": id, "pillarbox-event-type": "order.placed", "pillarbox-aggregate-type": "Order",
    "pillarbox-aggregate-id": "42" },
  plain: {},
};
(async () => {
  const connection = await amqp.connect(url.replace(/\/\/$/, "/%2f"));
  const channel = await connection.createConfirmChannel();
  const headers = shapes[shape];
  const start = process.hrtime.bigint(), before = process.cpuUsage();
  let sent = 0, confirmed = 0;
  await new Promise((resolve, reject) => {
    const more = () => {
      while (sent < count && sent - confirmed < window) {
        sent += 1;
        channel.publish("", queue, Buffer.from(body), { mandatory: true, persistent: true, contentType: "application/json",
          contentEncoding: "utf-8", correlationId: id, headers: { ...headers } }, (error) => {
          if (error) return reject(error);
          confirmed += 1;
          if (confirmed === count) resolve(); else more();
        });
      }
    };
    more();
  });
  const wall = Number(process.hrtime.bigint() - start) / 1e9, used = process.cpuUsage(before);
  console.log(`amqplib  ${shape.padEnd(7)} ${(count / wall).toFixed(0).padStart(8)} /s ${((used.user + used.system) / count).toFixed(1).padStart(6)} µs of client CPU`);
  await connection.close();
})();
