import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { pack } from 'tar-stream';

const zipped = promisify(gzip);

export interface ArchiveMember {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/**
 * A gzip-compressed tar: the members in the order given, below one folder, owned by nobody, all of one time. The same members give the
 * same bytes, and neither the archive nor its gzip header names a person or a machine.
 */
export async function tarball(
  members: readonly ArchiveMember[],
  options: { readonly folder: string; readonly at: Date },
): Promise<Uint8Array> {
  const archive = pack();
  const shared = { mtime: options.at, uid: 0, gid: 0, uname: '', gname: '' };
  archive.entry({ ...shared, name: `${options.folder}/`, type: 'directory', mode: 0o755 });
  for (const { name, bytes } of members) {
    archive.entry({ ...shared, name: `${options.folder}/${name}`, mode: 0o644 }, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  }
  archive.finalize();
  return zipped(await buffer(archive));
}
