import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runTranscripts, shapeOf } from '../../scripts/transcripts.ts';
import { ROOT } from '../support/processes.ts';

it('shows in the README what the commands print', async () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const transcripts = await runTranscripts();
  for (const { name, text } of transcripts) {
    const block = new RegExp(`<!-- transcript: ${name} -->\\n\`\`\`\\n([\\s\\S]*?)\\n\`\`\`\\n<!-- end -->`).exec(readme)?.[1];
    expect(block, `the README has no transcript ${name}`).toBeDefined();
    expect(shapeOf(block ?? ''), `npx tsx scripts/write-transcripts.ts renews ${name}`).toEqual(shapeOf(text));
  }
});
