import { existsSync } from 'node:fs';
import { appendFile, readdir, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { honest, type Scenario } from '../support/wire-server.ts';
import { type Case, captureRow, checkCase, shaped, usePlace } from './engine-vllm.cases.ts';

const place = usePlace();

const files: readonly Case[] = [
  {
    name: 'other ids stored',
    scenario: shaped((sent) => ({ ids: sent.map((id, at) => (at === 39 ? id + 1 : id)) })),
    code: 'capture-bad',
    message: /stored ids differ from those sent: position 39 holds 218, sent was 217/,
    hint: /restart/,
    retry: 'later',
  },
  {
    name: 'an id beyond 32 bits that ends in the right ones',
    scenario: shaped((sent) => ({ ids: sent.map((id, at) => (at === 5 ? id + 2 ** 32 : id)) })),
    code: 'capture-bad',
    message: /position 5 holds 4294967411, sent was 115/,
    hint: /restart/,
    retry: 'later',
  },
  {
    name: 'fewer ids stored',
    scenario: shaped((sent) => ({ ids: sent.slice(0, 20), rows: 20 })),
    code: 'capture-bad',
    message: /holds 20 token ids, and 40 were sent/,
    hint: /truncation/,
    retry: 'later',
  },
  {
    name: 'rows short by a block',
    scenario: shaped({ rows: 24 }),
    code: 'capture-bad',
    message: /24 rows for 40 tokens: short by 16, a multiple of 16.*prefix cache/,
    hint: /--no-enable-prefix-caching/,
    retry: 'later',
  },
  {
    name: 'rows short by something else',
    scenario: shaped({ rows: 39 }),
    code: 'capture-bad',
    message: /39 rows for 40 tokens$/,
    hint: /--no-enable-chunked-prefill/,
    retry: 'later',
  },
  {
    name: 'the last layer missing',
    scenario: shaped({ layers: 3 }),
    code: 'engine-protocol',
    message: /3 layers, and 4.*final layer was dropped/,
    hint: /46973/,
  },
  {
    name: 'too many layers',
    scenario: shaped({ layers: 6 }),
    code: 'engine-protocol',
    message: /6 layers, and 4 were asked for/,
    hint: /aux_hidden_state_layer_ids/,
  },
  {
    name: 'another width',
    scenario: shaped({ width: 32 }),
    code: 'engine-protocol',
    message: /32 wide.*hidden size is 24/,
    hint: /not the target/,
  },
  {
    name: 'another dtype',
    scenario: shaped({ dtype: 'I8' }),
    code: 'engine-protocol',
    message: /must be BF16, F16 or F32, and is I8 \[40, 4, 24\]/,
    hint: /--dtype/,
  },
  {
    name: 'another key',
    scenario: shaped({ statesName: 'states' }),
    code: 'engine-protocol',
    message: /it holds .*"states"/,
    hint: /Connector/,
  },
  {
    name: 'a key twice',
    scenario: shaped({ header: (text) => text.replace('{', '{"token_ids":{"dtype":"I64","shape":[40],"data_offsets":[0,320]},') }),
    code: 'capture-bad',
    message: /did not deliver them whole/,
    hint: /server log/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'a header that is no JSON',
    scenario: shaped({ header: (text) => text.replace('{', '(') }),
    code: 'capture-bad',
    message: /did not deliver them whole/,
    hint: /server log/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'a file cut short whose writer is gone',
    scenario: async (call) => {
      await call.lock();
      const bytes = call.file();
      await call.publish(bytes.subarray(0, bytes.length - 100));
      call.answer();
    },
    code: 'capture-bad',
    message: /did not deliver them whole.*unchanged.*\.lock is there/s,
    hint: /Hidden-states write failed/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'a lock and no file',
    scenario: async (call) => {
      await call.lock();
      call.answer();
    },
    code: 'capture-bad',
    message: /it never appeared \(after 0\.\d s; its \.lock is there\)/,
    hint: /Hidden-states write failed/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'neither lock nor file',
    scenario: async (call) => call.answer(),
    code: 'capture-bad',
    message: /it never appeared \(after 0\.\d s; there is no \.lock beside it\)/,
    hint: /as the server sees it/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'full size with a zero tail',
    scenario: shaped({ zeroFrom: 31 }),
    code: 'capture-bad',
    message: /never written from row 31 of 40 on/,
    hint: /df -h/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'all zero',
    scenario: shaped({ zeroFrom: 0 }),
    code: 'capture-bad',
    message: /never written from row 0 of 40 on/,
    hint: /server log/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'full size, nothing written',
    scenario: async (call) => {
      await call.publish(new Uint8Array(call.file().length));
      call.answer();
    },
    code: 'capture-bad',
    message: /did not deliver them whole/,
    hint: /server log/,
    retry: 'later',
    waits: true,
  },
  {
    name: 'an empty file',
    scenario: async (call) => {
      await call.publish(new Uint8Array(0));
      call.answer();
    },
    code: 'capture-bad',
    message: /did not deliver them whole/,
    hint: /server log/,
    retry: 'later',
    waits: true,
  },
];

describe('odd files', () => {
  it.each(files)('$name', (one) => checkCase(place(), one));
});

describe('files that come to be whole', () => {
  const slowly: Readonly<Record<string, Scenario>> = {
    'late, after the answer': async (call) => {
      await call.lock();
      call.answer();
      await call.later(250);
      await call.publish(call.file());
    },
    'growing under the final name (safetensors 0.7)': async (call) => {
      const bytes = call.file();
      call.answer();
      for (let at = 0; at < bytes.length; at += Math.ceil(bytes.length / 7)) {
        await appendFile(call.path, bytes.subarray(at, at + Math.ceil(bytes.length / 7)));
        await call.later(40);
      }
    },
    'full length first (safetensors 0.8.0-rc.0)': async (call) => {
      const bytes = call.file();
      await writeFile(call.path, '');
      await truncate(call.path, bytes.length);
      call.answer();
      for (const share of [0.02, 0.1, 0.5, 1]) {
        await call.later(50);
        await writeFile(call.path, bytes.subarray(0, Math.ceil(bytes.length * share)), { flag: 'r+' });
      }
    },
    'before the answer, and without a lock': async (call) => {
      await call.publish(call.file());
      call.answer();
    },
    'in a folder below the staging folder': async (call) => {
      const path = join(dirname(call.path), 'engine-1', call.path.slice(dirname(call.path).length + 1));
      await call.publish(call.file(), path);
      call.answer({ parameters: { hidden_states_path: path } });
    },
    'under a name of its own': async (call) => {
      const path = join(dirname(call.path), 'cmpl-af224c9ea1b4c618-0-85b9157b.safetensors');
      await call.publish(call.file(), path);
      call.answer({ parameters: { hidden_states_path: path } });
    },
  };

  it.each(Object.keys(slowly))('%s', async (name) => {
    const { server, outside, engine } = place();
    server.scenario = slowly[name] ?? honest;
    const found = await captureRow(engine({ timeoutMs: 3000 }));
    const bytes = (await found.readRows(0, found.tokens)).slice();
    expect(bytes.length).toBe(40 * 4 * 24 * 2);
    expect(bytes.subarray(-48).some((byte) => byte !== 0)).toBe(true);
    await found.release();
    expect((await readdir(server.staging)).filter((entry) => entry !== 'engine-1')).toEqual([]);
    expect(existsSync(outside)).toBe(true);
  });
});
