-- SPDX-License-Identifier: MIT
--- A training step of ridge's ranks beside torch's DistributedDataParallel over gloo: the same
--- network, weights, rows, global batch and one thread a rank. Starts of both alternate as ABBA
--- (A ridge, B torch); a ratio of a round's two B over its two A is one observation.
---
---     ./ridge scripts/peers/ddp.lua --python PYTHON --out results/kept/peers_ddp.txt

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local passes = require 'ridge.measure.passes'

local shared = dofile 'scripts/ranks_net.lua'

local SELF = 'scripts/peers/ddp.lua'
local LOSSES = 5

local function rows_of(rows, width) return shared.rows(rows, width, 5) end

-- A rank of ridge: the losses of its first steps, then what a step takes.
local function rank(path, rows, width, layers, count)
  rows, width, layers, count = tonumber(rows), tonumber(width), tonumber(layers), tonumber(count)
  local world = ridge.dist.init { timeout = 120 }
  local x, y = rows_of(rows, width)
  local own = rows / world.size
  x, y = x:narrow(1, world.rank * own + 1, own):clone(), y:narrow(1, world.rank * own + 1, own)
    :clone()
  local step = shared.training(shared.network(width, layers), x, y)
  local losses = {}
  for i = 1, LOSSES do
    losses[i] = ('%.7f'):format(ridge.dist.all_reduce(step():detach(), 'mean'):item())
  end
  ridge.dist.barrier()
  local began = C.rg_clock_ns()
  for _ = 1, count do step() end
  ridge.dist.barrier()
  local took = tonumber(C.rg_clock_ns() - began) / count
  if world.rank > 0 then return end
  shared.put(path, ('losses %s\nns %.0f\n'):format(table.concat(losses, ' '), took))
end

if (...) == 'rank' then return rank(select(2, ...)) end

-- -- Both -----------------------------------------------------------------------------------------

local opt = ridge.args {
  { 'python', 'python3', 'a Python that has torch' },
  { 'ranks', '2,4', 'numbers of ranks' },
  { 'rounds', 6, 'of ABBA; below 5 there is no interval', integer = true },
  { 'steps', 60, 'of a start', integer = true },
  { 'rows', 256, 'of the global batch', integer = true },
  { 'width', 512, 'of each layer', integer = true },
  { 'layers', 4, 'before the last', integer = true },
  { 'out', '', 'a file for what is printed' },
}

local say, keep = shared.report()

local function command(text)
  local pipe = assert(io.popen(text))
  local out = pipe:read '*a'
  pipe:close()
  return out
end

local function bytes_of(x)
  local n = tonumber(x.bytes)
  local buffer = ffi.new('uint8_t[?]', n)
  assert(C.rg_tensor_read(x._t, buffer, n) == 0)
  return ffi.string(buffer, n)
end

local folder = command 'mktemp -d':match '[^\n]+'
local weights = {}
for i, p in ipairs(shared.network(opt.width, opt.layers):parameters()) do
  weights[i] = bytes_of(p.tensor)
end
shared.put(folder .. '/weights.bin', table.concat(weights))
local x, y = rows_of(opt.rows, opt.width)
shared.put(folder .. '/x.bin', bytes_of(x))
shared.put(folder .. '/y.bin', bytes_of(y:to 'i64'))

local NUMBERS = { opt.rows, opt.width, opt.layers, opt.steps }

local RUN = {}
function RUN.A(n) return shared.launch(SELF, n, NUMBERS) end
function RUN.B(n)
  return command(('OMP_NUM_THREADS=1 %s scripts/peers/ddp.py %s %d %s'):format(opt.python, folder,
    n, table.concat(NUMBERS, ' ')))
end

say("ridge.dist.DataParallel (A) beside torch %s's DistributedDataParallel over gloo (B): %d"
  .. ' linear',
  command(opt.python .. " -c 'import torch; print(torch.__version__)'"):match '%S+' or '?',
  opt.layers + 1)
say('layers of %d, f32, SGD with momentum, a global batch of %d, one thread a rank, %d processors; '
  .. '%d x ABBA', opt.width, opt.rows, C.rg_processors(), opt.rounds)
say('of starts with %d steps. %s', opt.steps, os.date '!%Y-%m-%d %H:%M')
say ''
say('%5s  %10s %10s  %-28s %s', 'ranks', 'ridge, ms', 'torch, ms', 'torch / ridge',
  'furthest loss of the first 5')
for word in opt.ranks:gmatch '%d+' do
  local n = tonumber(word)
  local ratios, all, furthest = {}, { A = 0, B = 0 }, 0
  local first
  for round = 1, opt.rounds do
    local sum = { A = 0, B = 0 }
    for which in ('ABBA'):gmatch '.' do
      io.stderr:write(('%d ranks, round %d of %d, %s\n'):format(n, round, opt.rounds,
        which == 'A' and 'ridge' or 'torch'))
      local text = RUN[which](n)
      local ns = tonumber(text:match '\nns (%d+)')
      if not ns then error(('no time of %s: %s'):format(which, text), 0) end
      sum[which] = sum[which] + ns
      local i = 0
      first = first or text:match 'losses ([^\n]*)'
      local wanted = first:gmatch '%S+'
      for loss in text:match('losses ([^\n]*)'):gmatch '%S+' do
        i = i + 1
        furthest = math.max(furthest, math.abs(loss - wanted()))
      end
      if i ~= LOSSES then error('losses are missing', 0) end
    end
    ratios[round] = sum.B / sum.A
    all.A, all.B = all.A + sum.A, all.B + sum.B
    io.stderr:write(('  %.3f\n'):format(ratios[round]))
  end
  local own = passes.interval(ratios)
  say('%5d  %10.2f %10.2f  %-28s %.1e', n, all.A / opt.rounds / 2e6, all.B / opt.rounds / 2e6,
    own.lo and ('%.3f (%.3f to %.3f)'):format(own.med, own.lo, own.hi) or ('%.3f'):format(own.med),
    furthest)
  if furthest > 1e-4 then say '       THE LOSSES DIFFER: these are not the same trainings' end
end
os.execute('rm -r ' .. folder)
keep(opt.out)
