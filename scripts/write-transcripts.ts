import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../test/support/processes.ts';
import { runTranscripts, withTranscript } from './transcripts.ts';

// npx tsx scripts/write-transcripts.ts: runs the README's commands again and puts what they print into it.
const path = join(ROOT, 'README.md');
let document = readFileSync(path, 'utf8');
for (const transcript of await runTranscripts()) document = withTranscript(document, transcript);
writeFileSync(path, document);
