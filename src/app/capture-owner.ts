/** The eight hex digits of a run that stand in the names of its captures in the engine's staging folder. */
export function captureOwner(folderId: string): string {
  return folderId.slice(0, 8);
}
