#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rates of core/cpu/conv_model.c, fitted to convolutions that were measured.

    for each instruction set:
      ./ridge --threads 1 scripts/peers/conv_ways.lua 250 101 times > TIMES
    python3 scripts/peers/conv_rates.py TIMES... > core/cpu/conv_rates.c

Needs numpy. Each way's time is a sum of terms, as in conv_model.c. The rates are fitted to ratios
of ways that ran in turn, first to all of them, then to what the choice would lose. Every fourth
shape can be left out and judged: --judge. --beside conv_rates.c TIMES...: the rates that stand
there
stay as they are, on whatever processor they were fitted, and those of kernels that it lacks are
fitted beside them; printed are those. --depth: only where each channel has a kernel of its own,
and there are no tiles.
"""
import collections
import math
import re
import sys

import numpy as np

PROBLEM = re.compile(
    r'^(\w+) (\d+)x(\d+)x(\d+)x(\d+) o(\d+) k(\d+)x(\d+) s(\d+)x\d+ d(\d+)x\d+ '
    r'p(-?\d+),-?\d+,-?\d+,-?\d+ g(\d+) (\w+) (\w+) (?:[ke]+ )?t(\d+) (\w+)$')
OPS = ['conv2d', 'conv2d_back_data', 'conv2d_back_weight']
LAYOUTS = ['nchw', 'nhwc']
SETS = ['F32_AVX2', 'F32_AVX512', 'BF16_AVX512', 'BF16_AVX512_BF16', 'BF16_AMX']
NAMES = ['op', 'n', 'c', 'h', 'w', 'o', 'kh', 'kw', 's', 'd', 'pad', 'g', 'layout', 'dtype', 't',
         'isa']


def up(n, to):
    return -(-n // to) * to


def read(files):
    rows = []
    for path in files:
        for line in open(path):
            parts = line.rstrip('\n').split(' | ')
            found = PROBLEM.match(parts[0])
            if not found or len(parts) < 3:
                continue
            r = dict(zip(NAMES, found.groups()))
            for name in NAMES:
                if name not in ('op', 'layout', 'dtype', 'isa'):
                    r[name] = int(r[name])
            r['text'], r['ns'], r['ratio'] = parts[0], {}, {}
            for item in parts[2].split():
                way, values = item.split('=')
                if is_refused(r, way):
                    continue
                r['ns'][way], r['ratio'][way] = (float(x) for x in values.split(','))
            for i, k in ((0, 'kh'), (1, 'kw')):
                size = r['h' if i == 0 else 'w']
                r['y%d' % i] = (size + 2 * r['pad'] - r['d'] * (r[k] - 1) - 1) // r['s'] + 1
            rows.append(r)
    return rows


def set_of(r):
    if r['dtype'] == 'f32':
        return 'F32_AVX2' if r['isa'] == 'avx2' else 'F32_AVX512'
    return 'BF16_' + r['isa'].upper()


def is_depth(r):
    return r['g'] > 1 and r['c'] == r['g'] and r['o'] == r['g']


def has_depth(r):
    """Has oneDNN kernels for that?"""
    if r['op'] == 'conv2d':
        return True
    small = r['kw'] <= 3 and r['s'] <= min(r['kh'], r['kw'])
    return r['d'] == 1 and (r['op'] == 'conv2d_back_data' or small)


def has_tail(r):
    """Groups that do not fill vectors: their last channels are masked in each step. AVX2, forward."""
    return (r['isa'] == 'avx2' and r['op'] == 'conv2d' and r['g'] > 1
            and (r['c'] // r['g'] % 8 > 0 or r['o'] // r['g'] % 8 > 0))


def is_of_points(r):
    """1 x 1, for which oneDNN has a kernel that differs from the others: AVX2, forward."""
    return r['isa'] == 'avx2' and r['op'] == 'conv2d' and r['g'] * r['kh'] * r['kw'] == 1


def is_refused(r, way):
    """As in conv_model.c."""
    made, summed = (r['c'], r['o']) if r['op'] == 'conv2d_back_data' else (r['o'], r['c'])
    if (way != 'product' and r['isa'] == 'avx2' and r['layout'] == 'nhwc' and r['g'] == 1
            and r['kh'] * r['kw'] * r['s'] == 1 and r['pad'] == 0 and made == 1 and summed >= 16):
        return True
    return (way == 'plain' and r['isa'] == 'avx2' and r['layout'] == 'nhwc' and is_depth(r)
            and not has_depth(r) and r['op'] == 'conv2d_back_weight' and r['kw'] in (4, 5))


def kernels(r, way):
    first = r['layout'] == 'nchw'
    if way in ('tiles', 'product', 'implicit'):
        return way.upper()
    if is_depth(r) and not has_depth(r):
        return 'COLUMNS_DEPTH' if first else 'COPIED_DEPTH' if way == 'blocked' else 'VECTOR_DEPTH'
    if way == 'blocked':
        return ('BLOCKED_DEPTH' if is_depth(r) else
                'FIRST' if first and r['g'] == 1 and r['c'] <= 3 else 'BLOCKED')
    if is_depth(r):
        return 'COLUMNS_DEPTH' if first else 'PLAIN_DEPTH'
    if first or r['c'] == 1 or r['o'] == 1:
        return 'COLUMNS' if first else 'ONE'
    return 'TAILS' if has_tail(r) else 'PLAIN' if not is_of_points(r) else (
        'POINTS' if r['s'] == 1 else 'STRIDED')


def terms(r, way):
    lanes = 8 if r['isa'] == 'avx2' else 16
    groups, taps = r['g'], r['kh'] * r['kw']
    inside, outs = r['c'] // groups, r['o'] // groups
    spots, pixels = r['n'] * r['y0'] * r['y1'], r['n'] * r['h'] * r['w']
    src, dst = pixels * r['c'], spots * r['o']
    one = taps == 1 and r['s'] == 1 and r['pad'] == 0
    forward = r['op'] == 'conv2d'
    summed, made = (outs, inside) if r['op'] == 'conv2d_back_data' else (inside, outs)
    kind = kernels(r, way)
    if kind == 'PRODUCT':
        return [3000, inside * outs * spots / 100,
                up(inside, lanes) * up(outs, lanes) * spots / 100, src / 10, dst / 10,
                300 * r['n'] if r['layout'] == 'nchw' else 0]
    if kind == 'IMPLICIT':
        columns = up(outs, 16) * groups
        return [3000, inside * columns * taps * spots / 100, taps * spots / 10,
                columns * taps * spots / 100, src / 10, dst / 10, inside * columns * taps / 10]
    if kind == 'TILES':
        width, rows = (r['y1'], r['y0']) if forward else (r['w'], r['h'])
        cells = r['n'] * rows * up(width, lanes) * taps * summed * groups / 100
        return [3000, cells * made, cells * up(made, 4), src / 10, dst / 10,
                50 * r['n'] * groups * summed * (r['h'] if forward else r['y0'])]
    if kind in ('COLUMNS', 'COLUMNS_DEPTH', 'COPIED_DEPTH', 'ONE'):
        all_spots = spots * groups
        return [3000, inside * outs * taps * all_spots / 100,
                inside * up(outs, 8) * taps * all_spots / 100,
                up(inside * taps, 16) * outs * all_spots / 100,
                inside * taps * all_spots / 10 if taps > 1 else 0,
                inside * all_spots / 10 if taps == 1 and not one else 0,
                src / 10, dst / 10, 300 * r['n'] * groups]
    if kind in ('BLOCKED_DEPTH', 'PLAIN_DEPTH'):
        inner = up(groups, lanes) * taps * spots / 100
        return [3000, inner, up(groups, lanes) * (pixels + spots) / 10, src / 10, dst / 10,
                inner if groups % lanes != 0 else 0]
    blocked, all_taps = way == 'blocked', taps * spots * groups / 100
    return [3000, up(summed, lanes) * up(made, lanes) * all_taps,
            summed * up(made, lanes) * all_taps, up(made, lanes) * all_taps,
            30 * r['n'] * groups * r['y0'], src / 10, dst / 10,
            up(inside, lanes) * groups * pixels / 10 if blocked else 0,
            up(outs, lanes) * groups * spots / 10 if blocked else 0,
            up(inside, lanes) * up(outs, lanes) * groups * taps / 10
            if r['op'] == 'conv2d_back_weight' else 0]


class Steps:
    """Adam, on logarithms of rates."""

    def __init__(self, rates, fixed):
        self.rates, self.fixed, self.m, self.v, self.n = rates, fixed, {}, {}, 0

    def go(self, slopes, size):
        self.n += 1
        for k, slope in slopes.items():
            m = self.m[k] = .9 * self.m.get(k, 0) + .1 * slope
            v = self.v[k] = .999 * self.v.get(k, 0) + .001 * slope * slope
            if k in self.fixed:
                continue
            step = m / (1 - .9 ** self.n) / (np.sqrt(v / (1 - .999 ** self.n)) + 1e-6)
            self.rates[k] = np.maximum(self.rates[k] - size * step, -9)


def read_rates(path):
    """Rates of a table in C, by (set, work, layout), then by kernels."""
    known = collections.defaultdict(dict)
    for line in open(path):
        if found := re.search(r'\[RG_RATES_(\w+)\]\[(\d)\]\[(\d)\]', line):
            key = found[1], int(found[2]), int(found[3])
        elif found := re.search(r'\[RG_RATES_(\w+)\] = \{ ([\d, ]+) \}', line):
            known[key][found[1]] = [float(x) / 1e5 for x in found[2].split(', ')]
    return known


def fit(rows, rounds=1000, last=700, known={}):
    """Rates by kernels, of one work, layout and set; known: those that stay as they are."""
    data, n = {}, len(rows)
    lists = collections.defaultdict(list)
    best = np.array([math.log(min(r['ratio'].values())) for r in rows])
    for i, r in enumerate(rows):
        for way, x in r['ratio'].items():
            lists[kernels(r, way)].append((i, terms(r, way), math.log(x), math.log(r['ns'][way])))
    for k, items in lists.items():
        i, t, x, ns = zip(*items)
        data[k] = np.array(i), np.array(t, float) + 1e-9, np.array(x), np.array(ns)
    rates = {k: np.full(d[1].shape[1], -1.0) for k, d in data.items()}
    for k in known.keys() & data.keys():
        given = known[k] + [0] * (len(rates[k]) - len(known[k]))
        rates[k] = np.log(np.maximum(given, 1e-9))
    count = np.array([len(r['ratio']) for r in rows], float)

    def expected():
        return {k: np.log(d[1] @ np.exp(rates[k])) for k, d in data.items()}

    def slope(k, of_time, ns):
        share = data[k][1] * np.exp(rates[k]) / np.exp(ns)[:, None]
        return (of_time[:, None] * share).sum(0) / n

    steps = Steps(rates, known)
    for turn in range(rounds):
        ns, mean = expected(), np.zeros(n)
        for k, (i, _, x, _) in data.items():
            np.add.at(mean, i, ns[k] - x)
        mean /= count
        slopes = {}
        for k, (i, _, x, real) in data.items():
            weight = 1 / (1 + x - best[i])  # what is far from the fastest matters less
            pull = np.clip(ns[k] - x - mean[i], -1, 1) * weight + .03 * np.clip(ns[k] - real, -1, 1)
            slopes[k] = slope(k, pull, ns[k]) + 1e-3 * np.exp(rates[k] / 2) * len(i) / n
        steps.go(slopes, .03 if turn < .7 * rounds else .008)
    steps, before, soft = Steps(rates, known), {k: x.copy() for k, x in rates.items()}, .12
    for turn in range(last):
        ns, least, total, loss = expected(), np.full(n, 1e9), np.zeros(n), np.zeros(n)
        for k, d in data.items():
            np.minimum.at(least, d[0], ns[k])
        part, lost, slopes = {}, {}, {}
        for k, d in data.items():
            part[k] = np.exp(-(ns[k] - least[d[0]]) / soft)
            np.add.at(total, d[0], part[k])
        for k, (i, _, x, _) in data.items():
            part[k] /= total[i]
            off = np.minimum(x - best[i], 2)
            lost[k] = off * (1 + 2 * (off > math.log(1.3)))
            np.add.at(loss, i, part[k] * lost[k])
        for k, d in data.items():
            pull = -part[k] * (lost[k] - loss[d[0]]) / soft
            slopes[k] = slope(k, pull, ns[k]) + 1e-3 * (rates[k] - before[k])
        steps.go(slopes, .02 if turn < .7 * last else .005)
    return {k: np.exp(x) for k, x in rates.items()}


def off_by(rates, r):
    ns = {w: float(np.dot(rates[kernels(r, w)], terms(r, w))) for w in r['ratio']
          if kernels(r, w) in rates}
    way = min(ns, key=ns.get)
    return r['ratio'][way] / min(r['ratio'].values())


def grouped(rows):
    groups = collections.defaultdict(list)
    for r in rows:
        groups[set_of(r), OPS.index(r['op']), LAYOUTS.index(r['layout'])].append(r)
    return sorted(groups.items(), key=lambda item: (SETS.index(item[0][0]),) + item[0][1:])


def judge(rows, known):
    def left_out(r):
        return (r['n'] * 7 + r['c'] * 3 + r['o'] + r['h'] * 5 + r['w']) % 4 == 0
    for key, group in grouped(rows):
        rates = fit([r for r in group if not left_out(r)], known=known.get(key, {}))
        off = np.array([off_by(rates, r) for r in group if left_out(r)])
        print('%-18s %-20s %s  %4d cases  mean %.3f  most %.2f  above 1.3 %d' % (
            key[0], OPS[key[1]], LAYOUTS[key[2]], len(off), np.exp(np.log(off).mean()), off.max(),
            (off > 1.3).sum()))


HEAD = '''/* SPDX-License-Identifier: MIT */
/*
** What the terms of conv_model.c take, in hundred-thousandths of a nanosecond on the processor
** they were fitted on: what counts is how ways of one work stand to each other. Fitted by
** scripts/peers/conv_rates.py to drawn convolutions, by the ratios of ways that ran in turn
** (results/kept/conv_ways.txt).
*/
#include "cpu/conv_model.h"

/* clang-format off */
static const int32_t rates[RG_RATES_SETS][3][2][RG_RATES_KERNELS][RG_RATES_TERMS] = {'''
TAIL = '''};
/* clang-format on */

const int32_t *rg_conv_rates(int32_t set, int32_t work, int32_t layout, int32_t kernels)
{
  return rates[set][work][layout][kernels];
}'''


def main():
    files = [x for x in sys.argv[1:] if not x.startswith('--')]
    beside = files.pop(0) if '--beside' in sys.argv else None
    rows = [r for r in read(files) if r['t'] == 1]
    if '--depth' in sys.argv:  # tiles are fitted to all shapes
        rows = [r for r in rows if is_depth(r) and 'tiles' not in r['ratio'] and not (
                r['layout'] == 'nchw' and r['dtype'] == 'f32' and r['op'] != 'conv2d_back_weight')]
    known = read_rates(beside) if beside else {}
    if '--judge' in sys.argv:
        return judge(rows, known)
    print(HEAD)
    for key, group in grouped(rows):
        print('  [RG_RATES_%s][%d][%d] = {' % key)
        for kind, found in sorted(fit(group, known=known.get(key, {})).items()):
            if kind in known.get(key, {}):
                continue
            numbers = [round(float('%.3g' % (x * 1e5))) if x > 2.6e-4 else 0 for x in found]
            while len(numbers) > 1 and numbers[-1] == 0:
                numbers.pop()
            print('    [RG_RATES_%s] = { %s },' % (kind, ', '.join(str(x) for x in numbers)))
        print('  },')
    print(TAIL)


if __name__ == '__main__':
    main()
