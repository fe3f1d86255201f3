import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** What a shell makes of a line: the arguments, and nothing is run but `printf`. */
export async function argumentsOf(line: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('bash', ['-c', `printf '%s\\0' ${line}`]);
  return stdout.split('\0').slice(0, -1);
}
