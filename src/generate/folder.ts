/** Names inside `OUT.tidemark/`, where answers are kept until they are all there (docs/on-disk.md). */
export const LOCK_NAME = 'lock';

export function workingFolder(output: string): string {
  return `${output}.tidemark`;
}

export function settingsPath(folder: string): string {
  return `${folder}/settings.json`;
}

export function lockPath(folder: string, number: number): string {
  return `${folder}/${LOCK_NAME}.${number}`;
}

export function partPath(folder: string, number: number): string {
  return `${folder}/part-${String(number).padStart(4, '0')}.log`;
}

/** The number in a part's name, or null for any other name. */
export function partNumber(name: string): number | null {
  const match = /^part-(\d{4,9})\.log$/.exec(name);
  const number = match === null ? 0 : Number(match[1]);
  return number > 0 && partPath('', number) === `/${name}` ? number : null;
}
