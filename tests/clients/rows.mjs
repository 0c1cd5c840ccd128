// What both client scripts share: rows of [sentence, good, detail], printed as one line of JSON for
// serve_clients.py, which counts them.

import { isDeepStrictEqual } from 'node:util';

const rows = [];

export function check(sentence, good, detail = null) {
    rows.push([sentence, Boolean(good), String(detail)]);
}

export function expect(sentence, got, wanted) {
    check(sentence, isDeepStrictEqual(got, wanted), `expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`);
}

export async function refuses(sentence, promise, part) {
    try {
        check(sentence, false, `answered ${JSON.stringify(await promise)}`);
    } catch (error) {
        check(sentence, error.message.includes(part), error.message);
    }
}

export function finish() {
    console.log(JSON.stringify(rows));
}
