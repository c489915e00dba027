-- SPDX-License-Identifier: MIT
--- The model of scaling, fitted to steps of 1, 2 and 4 ranks and frozen, held against 8: in how
--- many of twelve trainings over batch, width and bucket size, chosen before, does the measured
--- step lie in the band of 95 %?
---
---     ./ridge scripts/scale_eight.lua --state DIR --out results/kept/scale_eight.txt
---
--- Each start's text is a file of DIR, and so are the predictions, which are made once and before
--- the first start of 8 ranks: run again, it goes on from what is there.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local model = require 'ridge.scaling.model'
local network = require 'ridge.scaling.network'
local shared = dofile 'scripts/ranks_net.lua'
local steps = require 'ridge.scaling.steps'

local SELF = 'scripts/scale_eight.lua'
local FITTED, HELD = { 2, 4 }, 8

-- Rows of a rank, width of four layers, bucket_mb. Chosen before any of them was measured.
local CONFIGS = {
  { 16, 128, 25 }, { 16, 256, 0.1 }, { 16, 256, 25 }, { 64, 128, 0.05 }, { 64, 256, 0.3 },
  { 64, 256, 25 }, { 64, 512, 1.1 }, { 64, 512, 25 }, { 256, 128, 25 }, { 256, 256, 0.3 },
  { 256, 512, 1.1 }, { 256, 512, 25 },
}

-- -- A rank ---------------------------------------------------------------------------------------

local RANK = {}

function RANK.train(path, rows, width, bucket_mb, count)
  rows, width = tonumber(rows), tonumber(width)
  local world = ridge.dist.init { timeout = 120 }
  local x, y = shared.rows(rows, width, 3 + world.rank)
  local step = shared.training(shared.network(width, 4), x, y, { bucket_mb = tonumber(bucket_mb) })
  local stop = {}
  local seen = steps.watch(tonumber(count), stop)
  local ok, how = pcall(function()
    for _ = 1, tonumber(count) do step() end
  end)
  if not ok and how ~= stop then error(how, 0) end
  if world.rank > 0 then return end
  shared.put(path, steps.text(seen, world.library))
end

function RANK.net(path, ...) require('ridge.scaling.ranks').main { path, ... } end

if (...) == 'rank' then return RANK[select(3, ...)]((select(2, ...)), select(4, ...)) end

-- -- Starts, each of which is kept ----------------------------------------------------------------

local opt = ridge.args {
  { 'state', '', 'a folder for what was measured' },
  { 'starts', 5, 'of each number of ranks', integer = true },
  { 'steps', 40, 'of a start', integer = true },
  { 'most', #CONFIGS, 'of the trainings, to try the script', integer = true },
  { 'out', '', 'a file for what is printed' },
}
if opt.state == '' then error('--state DIR is missing', 0) end
os.execute(("mkdir -p '%s'"):format(opt.state))

local function read(name)
  local file = io.open(opt.state .. '/' .. name, 'rb')
  if not file then return nil end
  local text = file:read '*a'
  file:close()
  return text
end

local began, launched = os.time(), 0

local function start(name, n, what, words)
  local text = read(name)
  if text then return text end
  launched = launched + 1
  io.stderr:write(('%d s, start %d: %s\n'):format(os.time() - began, launched, name))
  text = shared.launch(SELF, n, { what, unpack(words) })
  shared.put(opt.state .. '/' .. name, text)
  return text
end

local function training(i, n, k)
  local c = CONFIGS[i]
  local found = steps.read(start(('step-%d-%d-%d.txt'):format(i, n, k), n, 'train', { c[1], c[2],
    c[3], opt.steps }))
  return found or error('too few steps', 0)
end

local function messages(n)
  local texts = {}
  for k = 1, opt.starts do
    local words = { 5 }
    for _, bytes in ipairs(network.SIZES) do words[#words + 1] = ('%d'):format(bytes) end
    texts[k] = start(('net-%d-%d.txt'):format(n, k), n, 'net', words)
  end
  local found = network.of(texts)
  return { ranks = n, alpha = found.alpha, beta = found.beta }
end

-- -- Fit, freeze ----------------------------------------------------------------------------------

local FORM = '%d %.17g %.17g %.17g %.17g\n' -- training, crowding, middle, low, high end

local function fit()
  local hops = model.hops({ messages(2), messages(4) }, tonumber(C.rg_processors()))
  local ranks, inputs, fitted, missed = { 1, 2, 4 }, {}, {}, {}
  local starts = {}
  for k = 1, opt.starts do -- a round of all trainings, so that what a minute has falls on all
    for i = 1, opt.most do
      starts[i] = starts[i] or {}
      starts[i][k] = {}
      for _, n in ipairs(ranks) do starts[i][k][n] = training(i, n, k) end
    end
  end
  for i = 1, opt.most do
    local by, one = steps.together(starts[i], ranks)
    inputs[i] = { compute = by[1].step.med, buckets = one.buckets, spread = one.spread,
      network = { alpha = hops.alpha.med, beta = hops.beta.med },
      processors = tonumber(C.rg_processors()) }
    local list = {}
    for j, n in ipairs(FITTED) do list[j] = { ranks = n, ns = by[n].step.med } end
    inputs[i].crowding, missed[i] = model.crowding(inputs[i], list)
    fitted[i] = by[1].step
  end
  local misfit, lines = model.misfit(missed, FITTED, HELD), {}
  for i = 1, opt.most do
    local step = model.band(inputs[i], HELD, { compute = fitted[i], alpha = hops.alpha,
      beta = hops.beta, misfit = misfit })
    lines[i] = FORM:format(i, inputs[i].crowding, step.ns, step.lo, step.hi)
  end
  return table.concat(lines)
end

local PREDICTED = 'predicted.txt'
local frozen = read(PREDICTED)
if not frozen then
  for i = 1, opt.most do
    if read(('step-%d-%d-1.txt'):format(i, HELD)) then
      error('8 ranks were measured before a prediction was made: take another folder', 0)
    end
  end
  frozen = fit()
  shared.put(opt.state .. '/' .. PREDICTED, frozen)
end

-- -- Measure, compare -----------------------------------------------------------------------------

local say, keep = shared.report()

local predicted = {}
for i, k, ns, lo, hi in frozen:gmatch '(%d+) (%S+) (%S+) (%S+) (%S+)\n' do
  predicted[tonumber(i)] = { crowding = tonumber(k), ns = tonumber(ns), lo = tonumber(lo),
    hi = tonumber(hi) }
end
local times = {}
for k = 1, opt.starts do
  for i = 1, #predicted do
    times[i] = times[i] or {}
    times[i][k] = training(i, HELD, k).ns
  end
end
say('Steps of 8 ranks of one thread on %d processors, predicted by a model that was fitted to 1, 2 '
  .. 'and 4 ranks', C.rg_processors())
say('and frozen; medians of %d starts of %d steps. Four layers of a width, SGD with momentum. %s',
  opt.starts, opt.steps, os.date '!%Y-%m-%d %H:%M')
say ''
say('%5s %6s %10s %9s  %10s  %-24s %13s  %s', 'rows', 'width', 'bucket, MB', 'crowding',
  'model, ms', 'band', 'measured, ms', 'in it')
local inside = 0
for i, p in ipairs(predicted) do
  local own = require('ridge.measure.passes').interval(times[i]).med
  local is = own >= p.lo and own <= p.hi
  inside = inside + (is and 1 or 0)
  local c = CONFIGS[i]
  say('%5d %6d %10g %7.1f %%  %10.2f  %-24s %13.2f  %s', c[1], c[2], c[3], 100 * p.crowding,
    p.ns / 1e6, ('%.2f to %.2f'):format(p.lo / 1e6, p.hi / 1e6), own / 1e6, is and 'yes' or 'NO')
end
say ''
say('%d of %d measured steps lie in the band of 95 %%.', inside, #predicted)
keep(opt.out)
