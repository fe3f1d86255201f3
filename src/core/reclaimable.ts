/**
 * Bytes on the disk that come back when a name is removed: what is allocated, so that holes count for nothing (safetensors gives an
 * unfinished file its full size from the first moment), and nothing at all while the same file has another name, as a temporary
 * has between the two steps of its publication.
 */
export function reclaimableBytes(file: { readonly allocatedBytes: number; readonly links: number }): number {
  return file.links > 1 ? 0 : file.allocatedBytes;
}
