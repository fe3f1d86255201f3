/** Quoted for a POSIX shell, so that a hint can be pasted as it stands. */
export function quoted(path: string): string {
  return /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
