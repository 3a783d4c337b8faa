//! Confirmed publishes to RabbitMQ by several clients, with the same messages. Prints rate, client CPU and messages.
//!
//!     rabbitmq CLIENT URL QUEUE SHAPE COUNT BATCH LANES

mod messages;
mod with_amqprs;
mod with_frames;
mod with_lapin;
mod with_sink;

use std::time::Instant;

#[derive(Clone)]
pub struct Load {
    url: String,
    queue: String,
    shape: String,
    count: usize,
    /// Messages of a batch.
    batch: usize,
    /// Batches at once.
    lanes: usize,
}

/// User and system time of this process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, client, url, queue, shape, count, batch, lanes] = arguments.as_slice() else { panic!("see the source") };
    let number = |text: &String| text.parse().unwrap();
    let load = Load {
        url: url.replace("//", "/%2f").replacen(":/%2f", "://", 1),
        queue: queue.clone(),
        shape: shape.clone(),
        count: number(count),
        batch: number(batch),
        lanes: number(lanes),
    };
    let (start, before) = (Instant::now(), cpu());
    match client.as_str() {
        "prepare" => return with_lapin::prepare(&load).await,
        "lapin" => with_lapin::run(&load, 1).await,
        "lapin2" => with_lapin::run(&load, 2).await,
        "frames" => with_frames::run(&load).await,
        "amqprs" => with_amqprs::run(&load).await,
        "sink" => with_sink::run(&load, url).await,
        other => panic!("no client {other}"),
    }
    let (wall, busy) = (start.elapsed().as_secs_f64(), cpu() - before);
    println!(
        "{client:8} {shape:7} {:8.0} /s {:6.1} µs of client CPU",
        load.count as f64 / wall,
        busy * 1e6 / load.count as f64
    );
}
