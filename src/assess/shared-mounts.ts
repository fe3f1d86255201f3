/**
 * Filesystems that another machine may write to, and that may answer from a cache of this one. What they say is not there, or is short,
 * is asked again before anything is called missing, lost or torn. `opening` says what a new open(2) does to that cache:
 *
 * - `asks`: the server is asked for the attributes, and what is kept of a changed folder is dropped;
 * - `may-not`: answers may come from the cache until their time is over, so asking again is no proof;
 * - `coherent`: there is nothing old to be seen.
 */
export type Opening = 'asks' | 'may-not' | 'coherent';

export interface SharedMount {
  readonly filesystem: string;
  readonly opening: Opening;
  readonly why: string;
}

const SHARED: readonly { readonly filesystem: RegExp; readonly opening: Opening; readonly why: string }[] = [
  {
    filesystem: /^nfs4?$/,
    opening: 'asks',
    why: 'NFS keeps attributes for 3 to 60 s (acregmin, acdirmax) and names that were not there as long; open(2) asks the server (close-to-open)',
  },
  {
    filesystem: /^(cifs|smb3|smbfs)$/,
    opening: 'asks',
    why: 'SMB keeps attributes for a second (actimeo) and names under a lease; open(2) asks the server',
  },
  {
    filesystem: /^(ceph|fuse\.ceph(-fuse)?)$/,
    opening: 'coherent',
    why: 'the metadata server takes a client\u2019s capabilities back before it lets another one write',
  },
  {
    filesystem: /^(lustre|gpfs|mmfs|gfs2|ocfs2|wekafs)$/,
    opening: 'coherent',
    why: 'its lock manager drops what a client keeps before another one writes',
  },
  { filesystem: /^(beegfs|fhgfs)$/, opening: 'asks', why: 'it keeps attributes for about a second; open(2) asks the server' },
  {
    filesystem: /^fuse\.sshfs$/,
    opening: 'may-not',
    why: 'sshfs keeps names and attributes for 20 s (dcache_timeout), whoever opens them',
  },
  {
    filesystem: /^(9p|virtiofs|vboxsf|prl_fs|fuse\.vmhgfs-fuse)$/,
    opening: 'may-not',
    why: 'the host may change files under what this machine keeps of them',
  },
  { filesystem: /^(afs|coda)$/, opening: 'coherent', why: 'the server calls a client back when a file changes' },
  // Object stores, clustered and layered ones; a local one costs a second listing and nothing else.
  { filesystem: /^fuse(\..+)?$/, opening: 'may-not', why: 'a FUSE daemon may keep names and attributes for as long as it likes' },
];

/** Whether what the mount says may be old; so it is taken where nobody knows what it is. */
export function mayBeOld(mount: { readonly known: boolean; readonly value?: Parameters<typeof sharedMount>[0] }): boolean {
  if (mount.value === undefined) return true;
  const shared = sharedMount(mount.value);
  return shared !== null && shared.opening !== 'coherent';
}

/** Null for a filesystem of this machine alone. */
export function sharedMount(mount: { readonly filesystem: string; readonly options: string }): SharedMount | null {
  const found = SHARED.find(({ filesystem }) => filesystem.test(mount.filesystem));
  if (found === undefined) return null;
  const { opening, why } = found;
  // The operator gave up close-to-open for speed.
  if (opening === 'asks' && /(^|,)nocto(,|$)/.test(mount.options))
    return { filesystem: mount.filesystem, opening: 'may-not', why: `${why}, which the mount option nocto switches off` };
  return { filesystem: mount.filesystem, opening, why };
}
