// Validates an AsyncAPI document with the official parser; says what is wrong, and fails if something is.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../../../.tools/', import.meta.url));
const { Parser } = require('@asyncapi/parser');

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], 'utf8'));
// 0 is an error and 1 a warning; the others are advice, such as adding a licence.
const wrong = diagnostics.filter(({ severity }) => severity <= 1);
for (const { path, message } of wrong) console.error(`${path.join('.')}: ${message}`);
process.exit(document && wrong.length === 0 ? 0 : 1);
