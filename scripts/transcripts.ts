import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CLI, freePort, MODEL, ROOT, Running, startEngine } from '../test/support/processes.ts';

/** Printed in place of the workspace (`/tmp/t-` and six letters): of one length, so that lines break where a reader's would. */
const SHOWN = '/data/eagle-3';

export interface Transcript {
  readonly name: string;
  readonly text: string;
}

/** Runs every command that the README shows, for real, and returns what was typed and printed. */
export async function runTranscripts(): Promise<readonly Transcript[]> {
  const workspace = mkdtempSync('/tmp/t-');
  try {
    return [...(await killedRun(workspace)), await foreignTree(workspace)];
  } finally {
    rmSync(workspace, { recursive: true, force: true });
  }
}

/** Our own run: killed, assessed, resumed. */
async function killedRun(workspace: string): Promise<Transcript[]> {
  copyFileSync(join(ROOT, 'test/support/dialogues.jsonl'), join(workspace, 'merged.jsonl'));
  const port = await freePort();
  const staging = join(workspace, 'staging');
  let engine = await startEngine(port, staging);
  try {
    const argv = [
      ...['extract', '--dataset', 'merged.jsonl', '--output', 'hidden_states', '--model', MODEL, '--url', `http://127.0.0.1:${port}`],
      ...['--staging', staging, '--group-size', '16', '--in-flight', '2', '--reserve', '100MB'],
    ];
    const driver = new Running(CLI, [...argv, '--events'], {}, workspace);
    let committed = 0;
    driver.onLine((line) => {
      if ((JSON.parse(line) as { kind: string }).kind === 'committed') committed += 1;
      if (committed === 27) driver.kill('SIGKILL');
    });
    const end = await driver.finished;
    if (end.signal !== 'SIGKILL') throw new Error(`the driver ended before the kill: ${end.stderr}`);
    engine.kill('SIGKILL');
    await engine.finished;
    const assess = await shown(workspace, ['assess', 'hidden_states'], 3);
    engine = await startEngine(port, staging);
    const resume = await shown(workspace, ['resume', 'hidden_states'], 0);
    return [
      { name: 'killed-assess', text: assess },
      { name: 'killed-resume', text: resume },
    ];
  } finally {
    engine.kill('SIGTERM');
    await engine.finished;
  }
}

/** The defining case: 37,312 rows, 18,421 files, written by another tool before the storage went away. */
async function foreignTree(workspace: string): Promise<Transcript> {
  const scene = join(workspace, 'run');
  execFileSync('python3', [join(ROOT, 'test/support/scenes/make_scene.py'), '--scene', 'storage-crash', '--format', 'pt', scene], {
    stdio: 'ignore',
  });
  if (!existsSync(join(scene, 'hidden_states'))) throw new Error('the scene was not made');
  return { name: 'foreign-assess', text: await shown(workspace, ['assess', 'run/hidden_states', '--dataset', 'run/dataset.jsonl'], 3) };
}

async function shown(workspace: string, argv: readonly string[], code: number): Promise<string> {
  const end = await new Running(CLI, argv, {}, workspace).finished;
  if (end.code !== code) throw new Error(`tidemark ${argv.join(' ')} ended with ${end.code}: ${end.stdout}${end.stderr}`);
  return `$ tidemark ${argv.join(' ')}\n${end.stderr}${end.stdout}`.replaceAll(workspace, SHOWN).replaceAll(ROOT, '~/tidemark').trimEnd();
}

/** A transcript in its place of a document, between its two markers. */
export function withTranscript(document: string, transcript: Transcript): string {
  const [begin, end] = [`<!-- transcript: ${transcript.name} -->`, '<!-- end -->'];
  const from = document.indexOf(begin);
  const to = document.indexOf(end, from);
  if (from < 0 || to < 0) throw new Error(`no place for the transcript ${transcript.name}`);
  return `${document.slice(0, from + begin.length)}\n\`\`\`\n${transcript.text}\n\`\`\`\n${document.slice(to)}`;
}

/**
 * What of a transcript must stay the same from machine to machine: what was typed, which accounts are given, how it ends. Numbers, and what was just
 * in flight when the kill came, are another machine's.
 */
export function shapeOf(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const account = /^ {2}(sound|missing|torn|corrupt|drifted|poisoned|unreadable) +\d/.exec(line)?.[1];
    if (account !== undefined) return [account];
    return /^(\$ |next: )/.test(line) ? [line] : [];
  });
}
