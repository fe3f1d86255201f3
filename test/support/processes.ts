import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

export const ROOT = resolve(import.meta.dirname, '../..');
export const CLI = join(ROOT, 'dist/cli/main.js');
export const MODEL = join(ROOT, 'models/tide-5m');

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A real process of ours whose lines can be waited for. */
export class Running {
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  #stdout = '';
  #stderr = '';
  readonly #listeners = new Set<(line: string) => void>();

  constructor(script: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}, cwd: string = process.cwd()) {
    this.child = spawn(process.execPath, [script, ...argv], {
      env: { ...process.env, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd,
    });
    const { stdout, stderr } = this.child;
    if (stdout === null || stderr === null) throw new Error('pipes were asked for');
    stderr.on('data', (data: Buffer) => {
      this.#stderr += data.toString('utf8');
    });
    createInterface({ input: stdout }).on('line', (line) => {
      this.#stdout += `${line}\n`;
      for (const listener of this.#listeners) listener(line);
    });
    this.finished = new Promise((done) => {
      this.child.once('close', (code, signal) => done({ code, signal, stdout: this.#stdout, stderr: this.#stderr }));
    });
  }

  onLine(listener: (line: string) => void): void {
    this.#listeners.add(listener);
  }

  /** The first line that matches; rejects when the process ends before it. */
  line(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((found, failed) => {
      this.onLine((line) => {
        const match = pattern.exec(line);
        if (match !== null) found(match);
      });
      void this.finished.then((end) =>
        failed(new Error(`it ended (${end.code ?? end.signal}) before ${pattern}: ${end.stderr.slice(-2000)}`)),
      );
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}

/** Runs the built command to its end. */
export function tidemark(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Finished> {
  return new Running(CLI, argv, env).finished;
}

/** The embedded engine on a port that stays the same when it is started again. */
export async function startEngine(port: number, staging: string, more: readonly string[] = []): Promise<Running> {
  const engine = new Running(CLI, ['engine', '--model', MODEL, '--port', `${port}`, '--staging', staging, '--threads', '1', ...more]);
  await engine.line(/^engine ready at /);
  return engine;
}

export function freePort(): Promise<number> {
  return new Promise((found, failed) => {
    const server = createServer();
    server.once('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => (typeof address === 'object' && address !== null ? found(address.port) : failed(new Error('no port'))));
    });
  });
}

/** Runs a program and rejects with what it said when it fails. */
export function program(file: string, argv: readonly string[]): Promise<string> {
  return new Promise((done, failed) => {
    execFile(file, [...argv], { cwd: ROOT, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) done(stdout);
      else failed(new Error(`${file} ${argv.join(' ')}: ${stderr || error.message}`));
    });
  });
}
