import { describe, expect, it } from 'vitest';
import { createRedactor } from './redact.ts';

/** Goes over it twice, as the packing does: what is found late is then known from the start. */
function twice(...texts: readonly string[]): string[] {
  const redactor = createRedactor();
  for (const text of texts) redactor.text(text);
  return texts.map((text) => redactor.text(text));
}

const once = (text: string): string => twice(text)[0] ?? '';

describe('secrets', () => {
  const SECRET = 'Zq9-xV_7rT3kLm0P';
  for (const [name, text] of [
    ['a bearer', `Authorization: Bearer ${SECRET}`],
    ['a bearer in small letters, in a command', `curl -H "authorization: bearer ${SECRET}" http://localhost:8000/v1`],
    ['basic authentication', `> Authorization: Basic ${SECRET}=`],
    ['an OpenAI key', `key sk-${SECRET} was refused`],
    ['a project key', `sk-proj-${SECRET}${SECRET}`],
    ['a Hugging Face token', `token hf_Zq9xV7rT3kLm0PZq9xV7rT3kLm0P expired`],
    ['a GitHub token', `https://x-access-token:ghp_Zq9xV7rT3kLm0PZq9xV7@github.com/a/b`],
    ['an AWS key', 'using AKIAIOSFODNN7EXAMPLE in us-east-1'],
    ['an AWS secret', `aws_secret_access_key = ${SECRET}/abc`],
    ['a signed URL', `GET https://bucket.s3.amazonaws.com/a?X-Amz-Credential=${SECRET}&X-Amz-Signature=${SECRET}`],
    ['a flag and its value', `vllm serve m --api-key ${SECRET} --port 8000`],
    ['a flag with an equals sign', `vllm serve m --api-key=${SECRET} --port 8000`],
    ['a quoted flag', `serve --password '${SECRET} with more' --port 1`],
    ['an environment variable', `HF_TOKEN=${SECRET} python train.py`],
    ['an exported one', `export WANDB_API_KEY="${SECRET}"`],
    ['JSON', `{"api_key": "${SECRET}", "port": 8000}`],
    ['JSON inside JSON', `{"line":"{\\"api_key\\":\\"${SECRET}\\"}"}`],
    ['Python', `Namespace(host='0.0.0.0', api_key=['${SECRET}'], hf_token='${SECRET}')`],
    ['camel case', `accessToken: ${SECRET}`],
    ['a sentence for a password', `password: correct horse ${SECRET}`],
    ['a cookie', `Set-Cookie: session=${SECRET}; Path=/`],
    ['a web token', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N'],
    ['a private key', `-----BEGIN OPENSSH PRIVATE KEY-----\n${SECRET}\nAAAA\n-----END OPENSSH PRIVATE KEY-----\nrest`],
    ['a private key that was cut', `-----BEGIN PRIVATE KEY-----\n${SECRET}\nAAAA`],
    ['a URL', `http://user:${SECRET}@box-7:8000/v1`],
    ['a password with an at and a slash', `http://user:p@ss/${SECRET}@box-7:8000/v1`],
    ['a URL that was cut', `connecting to http://user:${SECRET}`],
  ] as const) {
    it(`replaces ${name}`, () => {
      const said = once(text);
      for (const part of ['Zq9', 'rT3kLm', 'IOSFODNN', 'AAAA', 'p@ss', 'dozjg', 'horse']) expect(said).not.toContain(part);
      expect(said).toMatch(/<secret-1>/);
    });
  }

  it('keeps what stands around one', () => {
    expect(once(`vllm serve m --api-key ${SECRET} --port 8000`)).toBe('vllm serve m --api-key <secret-1> --port 8000');
    expect(once('http://alice:hunter2@box-7:8000/v1?x=1')).toBe('http://<user-1>:<secret-1>@<host-1>:8000/v1?x=1');
    expect(once('{"api_key": "hunter22", "port": 8000}')).toBe('{"api_key": "<secret-1>", "port": 8000}');
    expect(once('HF_TOKEN=hunter22 python x.py')).toBe('HF_TOKEN=<secret-1> python x.py');
  });

  it('finds one that was seen in a URL wherever it stands, before it too, with escapes and without', () => {
    const [first, second, third] = twice('logged in with tr0ub&dor', 'http://bob:tr0ub%26dor@box-7/', 'retry tr0ub%26dor now');
    expect(first).toBe('logged in with <secret-1>');
    expect(second).toBe('http://<user-1>:<secret-1>@<host-1>/');
    expect(third).toBe('retry <secret-1> now');
  });
});

describe('people and machines', () => {
  it('replaces home folders, and keeps every other path', () => {
    expect(once('/home/alice/runs/a.jsonl and /Users/alice/b, /root/x')).toBe('/home/<user-1>/runs/a.jsonl and /Users/<user-1>/b, /root/x');
    expect(once('/data/eagle-3/hidden_states/rows_0-2000/data_7.ckpt')).toBe('/data/eagle-3/hidden_states/rows_0-2000/data_7.ckpt');
    expect(twice('/home/alice/x', '/scratch/alice/y and /scratch/alice_2')).toEqual([
      '/home/<user-1>/x',
      '/scratch/<user-1>/y and /scratch/<user-1>_2',
    ]);
  });

  it('does not take a word for a name because somebody is called so', () => {
    expect(twice('/home/data/x', '/data/models/y')).toEqual(['/home/<user-1>/x', '/data/models/y']);
  });

  it('replaces hosts of URLs, domains, logs and mounts, and one machine has one name', () => {
    expect(once('http://gpu-17.corp.example.com:8000/v1')).toBe('http://<host-1>:8000/v1');
    expect(twice('http://gpu-17.corp.example.com/', 'gpu-17 went away')).toEqual(['http://<host-1>/', '<host-1> went away']);
    expect(once('Mar 14 02:10:00 gpu-17 kernel: nvme0n1: I/O error')).toBe('Mar 14 02:10:00 <host-1> kernel: nvme0n1: I/O error');
    expect(once('2026-03-14T02:10:00.123456+01:00 gpu17 kernel: x')).toBe('2026-03-14T02:10:00.123456+01:00 <host-1> kernel: x');
    expect(once('nfs: server nas01 not responding, still trying')).toBe('nfs: server <host-1> not responding, still trying');
    expect(once('rsync alice@nas01:/export x')).toBe('rsync <user-1>@<host-1>:/export x');
    expect(once('http://localhost:8000 and https://huggingface.co/a/b')).toBe('http://localhost:8000 and https://huggingface.co/a/b');
  });

  it('replaces addresses of every family, and keeps loopback', () => {
    expect(once('10.1.2.3:8000 and 10.1.2.3 and 192.168.0.9/24')).toBe('<ip-1>:8000 and <ip-1> and <ip-2>/24');
    expect(once('http://10.1.2.3:8000/v1, http://[2001:db8::7]:80/')).toBe('http://<ip-1>:8000/v1, http://[<ip-2>]:80/');
    expect(once('peer 2001:db8:0:0:1:0:0:1 or fe80::1ff:fe23:4567:890a%eth0')).toBe('peer <ip-1> or <ip-2>%eth0');
    expect(once('127.0.0.1:8000, 0.0.0.0, ::1')).toBe('127.0.0.1:8000, 0.0.0.0, ::1');
    expect(once('eth0 3c:ec:ef:12:34:56 and 3C-EC-EF-12-34-56')).toBe('eth0 <mac-1> and <mac-2>');
    expect(once('write to alice.b@example.org.')).toBe('write to <email-1>.');
  });

  it('knows names that it was told', () => {
    const redactor = createRedactor();
    redactor.know('host', 'athena');
    redactor.know('user', 'John Smith');
    expect(redactor.text('process 7 on athena, /srv/John Smith/x')).toBe('process 7 on <host-1>, /srv/<user-1>/x');
  });
});

describe('what was said', () => {
  it('cuts prompts, answers and token ids', () => {
    for (const line of [
      "INFO 03-14 Received request cmpl-7: prompt: 'My dog Rex has eaten', params: SamplingParams(n=1), prompt_token_ids: [1, 2, 3]",
      'prompt: My dog Rex has eaten',
      '{"level":"error","messages":[{"role":"user","content":"My dog Rex has eaten"}]}',
      'ValueError: cannot encode "My dog Rex has eaten the whole cake"',
      "could not parse 'My dog Rex has eaten the whole",
    ]) {
      expect(once(line), line).not.toMatch(/dog|Rex|eaten/);
    }
    expect(once('input_ids: [101, 2023, 2003]')).toBe('input_ids: <text: 17 characters>');
    expect(once('bad row [101, 2023, 2003, 1037, 2307, 3899, 999, 102]')).toBe('bad row <8 numbers>');
    expect(once(`got ${Array.from({ length: 20 }, (_, at) => 1000 + at).join(' ')} and`)).toBe('got <20 numbers> and');
  });
});

describe('what stays', () => {
  for (const text of [
    'sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    'run 5d41402abc4b2a76b9719d911017c592, lease 3',
    'rows 18424-37311, 3 failed earlier: 4711, 6802, 9120',
    'tidemark 0.1.0, node v20.19.1, vllm 0.18.0rc1, driver version: 535.129.03.1',
    'nvidia-cublas-cu12==12.4.5.8, cuda 12.4.1.2',
    '2026-03-14T02:10:00Z, 02:10:00, 4 h 49 min at 1.09/s, 26-03-14-02-10-00',
    'torch::jit and std::bad_alloc in c10::Error at 0000:3b:00.0',
    'nvme0n1: I/O error, dev nvme0n1, sector 123456 op 0x0:(READ)',
    'Out of memory: Killed process 4711 (python) total-vm:1234kB, anon-rss:5678kB',
    'max_tokens=512, num_tokens: 3016, tokenizer=AutoTokenizer, eos_token=</s>, token_count: 7',
    '3 016 tokens, about 6.31 MB (it fits: 79.6 GB of 271 GB free (statfs))',
    'tidemark verify /data/hidden_states --level checksum --dataset /data/merged.jsonl',
    'torch.nn.functional, scipy.io, data_7.ckpt.gz, merged.jsonl, vllm.engine.async_llm',
    'systemctl disable --now llm@0.service; systemctl mask llm-server.service',
    'hf_overrides={}, --hf-config-path x, task-12345678',
    "it is '/data/my odd folder with many words in it/x', not a regular file",
    'the driver went away without a last word (journal/run has a start and no end)',
  ]) {
    it(text.slice(0, 60), () => expect(once(text)).toBe(text));
  }
});

describe('documents', () => {
  it('goes by keys as well as by what the strings hold, and leaves numbers alone', () => {
    const redactor = createRedactor();
    const document = {
      hostname: 'vm',
      argv: ['extract', '--api-key', 'hunter2', '--url', 'http://u:hunter2@box-7:8000'],
      headers: { Authorization: 'Bearer hunter2' },
      password: 12,
      ranges: [[0, 28]],
      tokens: 3016,
      bytes: 10,
      note: 'hunter2 again',
    };
    redactor.json(document);
    redactor.takeCounts();
    expect(redactor.json(document)).toEqual({
      hostname: '<host-1>',
      argv: ['extract', '--api-key', '<secret-1>', '--url', 'http://<user-1>:<secret-1>@<host-2>:8000'],
      headers: { Authorization: 'Bearer <secret-1>' },
      password: 12,
      ranges: [[0, 28]],
      tokens: 3016,
      bytes: 10,
      note: '<secret-1> again',
    });
    expect(redactor.takeCounts()).toMatchObject({ secret: 4, host: 2, user: 1 });
    expect(redactor.distinct()).toMatchObject({ host: 2, user: 1 });
  });

  it('leaves out of a foreign one what stands under the names of speech', () => {
    const redactor = createRedactor();
    const line = { level: 'error', row: 7, messages: [{ role: 'user', content: 'My dog' }], input_ids: [1, 2], text: 'My dog' };
    expect(JSON.stringify(redactor.json(line, 'foreign'))).not.toMatch(/dog|\[1,2\]/);
    expect(redactor.json(line, 'foreign')).toMatchObject({ level: 'error', row: 7 });
  });

  it('says whether a known secret is left in a text', () => {
    const redactor = createRedactor();
    redactor.text('HF_TOKEN=abcdefgh12');
    expect(redactor.leaks('x abcdefgh12')).toBe(true);
    expect(redactor.leaks('x abcdefgh')).toBe(false);
  });
});

it('takes any line in time, whatever it is made of', () => {
  const redactor = createRedactor();
  for (const piece of ['"', "'", 'a.', 'a@', ':', '1 ', 'token=', 'http://', 'aa:', '-', 'x-', '\\"', '/home/', 'prompt: ']) {
    expect(redactor.text(piece.repeat(8192 / piece.length)).length).toBeGreaterThan(0);
  }
});
