import { type FileProbe, probeFile } from '../assess/gather-probe.ts';
import { PROBE_BYTES, WordTable, writeProbe } from '../assess/probe-bytes.ts';
import { fileCallServer } from '../host/file-calls.ts';
import type { FileReader } from '../host/host.ts';
import { createLocalClock } from '../host/local-clock.ts';
import { createLocalReader } from '../host/local-reader.ts';
import { blockingCalls } from '../host/read-calls.ts';
import { serveHelper } from '../host/serve-helper.ts';
import { layoutOfForm } from '../store/layout-of-form.ts';
import { createStoreReader } from '../store/reader.ts';
import type { ProbeQuestion, ProbeWord, ReaderQuestion } from './reader-question.ts';

/** Answers that wait for company before they are sent, at most so many and so long. */
const WORD_PROBES = 256;
const WORD_MS = 50;
/** While one file is read for longer, a word now and then says that bytes still come. */
const READING_MS = 1000;

/**
 * The program of a reader process: it reads what it is asked to, with calls that block, and knows nothing of rows or runs. It may be
 * killed at any time; it writes nothing.
 */
const clock = createLocalClock();
const files = createLocalReader(blockingCalls());
const calls = fileCallServer(files);

async function probes(question: ProbeQuestion, say: (word: ProbeWord) => void): Promise<void> {
  const plain = new DataView(new ArrayBuffer(WORD_PROBES * PROBE_BYTES));
  let others = new Map<number, FileProbe>();
  let words = new WordTable();
  let count = 0;
  let saidMs = clock.monotonicMs();
  const beganMs = processorMs();
  const flush = (): void => {
    say({ count, plain: new Uint8Array(plain.buffer, 0, count * PROBE_BYTES), words: words.words, others });
    others = new Map();
    words = new WordTable();
    count = 0;
    saidMs = clock.monotonicMs();
  };
  const onRead = (): void => {
    if (clock.monotonicMs() - saidMs < READING_MS) return;
    say('reading');
    saidMs = clock.monotonicMs();
  };
  const watched = withProgress(files, onRead);
  const store = createStoreReader(watched, question.folder, layoutOfForm({ name: question.layout, form: question.form }, question.codec));
  const tools = { files: watched, store, limit: <T>(_what: string, _limitMs: number, work: () => Promise<T>) => work() };
  for (const path of question.paths) {
    const probe = await probeFile(tools, path, question.level);
    if (!writeProbe(plain, count * PROBE_BYTES, probe, words)) others.set(count, probe);
    count += 1;
    if (question.each || count >= WORD_PROBES || clock.monotonicMs() - saidMs > WORD_MS) flush();
  }
  if (count > 0) flush();
  say({ processorMs: processorMs() - beganMs });
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The same files; each read that came is told. */
function withProgress(reader: FileReader, onRead: () => void): FileReader {
  return {
    ...reader,
    async open(path) {
      const file = await reader.open(path);
      if (file === null) return null;
      return {
        ...file,
        async read(offset, length) {
          const bytes = await file.read(offset, length);
          onRead();
          return bytes;
        },
      };
    },
  };
}

serveHelper(async (asked, say) => {
  const question = asked as ReaderQuestion;
  if (question.call === 'probe') await probes(question, say);
  else say(await calls(question));
});
