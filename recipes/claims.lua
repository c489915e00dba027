-- SPDX-License-Identifier: MIT
--- What the documents behind ridge claim of compiling, of ONNX files and of folding batch
--- normalisation, and what is so on this machine: rows of a sweep, and a verdict for each claim.
--
--     compile   a function compiled: 20 to 60 % faster (000), 20 to 30 % (001)
--     onnx      a net as an ONNX file: 1.2 to 1.5 times as fast as the net itself (003)
--     conv_bn   convolution, batch normalisation, ReLU as one convolution: up to 2 times (004)
--
-- Each case is a pair of points, timed in paired blocks beside an A/A control. A claim holds in a
-- case where the whole 95 % interval of the ratio lies at or above its lower end, does not where it
-- lies below, and is open in between; of "up to" every case is asked whether it gets there.
--
-- machine: any
-- time:    about four minutes on two cores
-- result:  a table; rows in results/ridge.db as sweep claims
--
--     ./ridge recipes/claims.lua [--only compile] [--threads 1] [--quick] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'only', '', 'claims whose cases begin with this' },
  { 'threads', 1, 'compute threads', integer = true, min = 1, max = 1024 },
  { 'processes', 3, 'fresh processes of a comparison', integer = true, min = 1, max = 64 },
  { 'db', 'results/ridge.db', 'database file' },
  { 'new', false, 'start a new sweep instead of going on' },
  { 'quick', false, 'fewer rounds' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
ridge.set_num_threads(opt.threads)

local small = opt.smoke and 4 or 1 -- sizes are divided by this

-- -- Nets -----------------------------------------------------------------------------------------

local function mlp() return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)) end

local function lenet()
  return nn.Sequential(
    nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
end

local function block() return nn.TransformerBlock(256 / small, { heads = 4, causal = true }) end

local function normed(shape)
  local channels = shape[2]
  local norm = nn.BatchNorm(channels)
  norm.running_var:fill_(0.5)
  return nn.Sequential(nn.Conv2d(channels, channels, 3, { padding = 1, bias = false }), norm,
    nn.ReLU())
end

-- Of a case: what makes the net, given the shape of its input, and that shape.
local CASES = {
  ['compile mlp b32'] = { mlp, { 32, 64 } },
  ['compile lenet b1'] = { lenet, { 1, 1, 28, 28 } },
  ['compile lenet b64'] = { lenet, { 64 / small, 1, 28, 28 } },
  ['compile block b1'] = { block, { 1, 64 / small, 256 / small } },
  ['compile step of mlp b32'] = { mlp, { 32, 64 } },
  ['onnx mlp b32'] = { mlp, { 32, 64 } },
  ['onnx lenet b1'] = { lenet, { 1, 1, 28, 28 } },
  ['onnx lenet b64'] = { lenet, { 64 / small, 1, 28, 28 } },
  ['onnx block b1'] = { block, { 1, 64 / small, 256 / small } },
  ['conv_bn 16x112x112'] = { normed, { 1, 16, 112 / small, 112 / small } },
  ['conv_bn 64x56x56'] = { normed, { 1, 64, 56 / small, 56 / small } },
  ['conv_bn 256x14x14'] = { normed, { 1, 256 / small, 14, 14 } },
}
local CLAIMS = {
  compile = { 1.2, '20 to 60 % (000), 20 to 30 % (001) faster' },
  onnx = { 1.2, '1.2 to 1.5 times as fast (003)' },
  conv_bn = { 2, 'up to 2 times as fast (004)' },
}

local names = {}
for name in pairs(CASES) do
  if name:sub(1, #opt.only) == opt.only then names[#names + 1] = name end
end
if #names == 0 then error(("no case begins with '%s'"):format(opt.only), 0) end
table.sort(names)

-- -- Both sides of a case -----------------------------------------------------------------------

local function quiet() end

local function step_of(net, x)
  local y = ridge.randn(unpack(x.shape))
  local optimizer = ridge.optim.SGD(net:train(), { lr = 1e-6 })
  return function()
    optimizer:zero_grad()
    nn.mse_loss(net(x), y):backward()
    optimizer:step()
  end
end

local function loaded(net, x)
  local path = os.tmpname()
  ridge.onnx.export(net, path, { x = x, test = false })
  local m = ridge.onnx.load(path)
  os.remove(path)
  return m
end

-- A function, or a plan.
local function side_of(name, claimed)
  ridge.seed(1)
  local kind, make, shape = name:match '^%S+', CASES[name][1], CASES[name][2]
  local net, x = make(shape):eval(), ridge.randn(unpack(shape))
  if name:find 'step' then
    local step = step_of(net, x)
    if not claimed then return step end
    local compiled = ridge.compile(step, { say = quiet })
    for _ = 1, 3 do compiled() end
    return function() return compiled() end
  end
  if kind == 'compile' then
    local f = claimed and ridge.compile(net, { say = quiet }) or net
    return function() return ridge.inference(f, x) end
  elseif kind == 'onnx' then
    if not claimed then return function() return ridge.inference(net, x) end end
    return ridge.graph(loaded(net, x), x):optimize('aggressive'):plan()
  end
  local graph = ridge.inference(function() return ridge.graph(net, x) end)
  return (claimed and graph:optimize 'aggressive' or graph:optimize 'standard'):plan()
end

local sw = ridge.sweep 'claims' {
  space = { case = names, claimed = { 'no', 'yes' } },
  args = { threads = opt.threads, smoke = opt.smoke },
  protocol = opt.quick and 'quick' or 'demo',
  setup = function(p)
    ridge.set_num_threads(opt.threads)
    return { side = side_of(p.case, p.claimed == 'yes') }
  end,
  measure = function(_, c, m) m:time('call', c.side) end,
}
local summary = sw:run { db = opt.db, new = opt.new, calibrate = not opt.smoke }

-- -- Verdicts -------------------------------------------------------------------------------------

local function verdict_of(found, least)
  local lo, hi = 1 / found.ci_hi, 1 / found.ci_lo
  if found.aa_fail then return 'open (a against itself differs)' end
  if lo >= least then return 'holds' end
  return hi < least and 'does not hold' or 'open'
end

print(('%d thread%s; how many times as fast, with its 95 %% interval'):format(opt.threads,
  opt.threads == 1 and '' or 's'))
local pairs_of = sw:ab { a = { claimed = 'no' }, b = { claimed = 'yes' },
  check = false, processes = opt.processes, blocks = opt.quick and 6 or nil,
  looks = opt.quick and 1 or nil, db = opt.db }
table.sort(pairs_of, function(a, b) return a.pair.case < b.pair.case end)
local counts, order = {}, { 'compile', 'onnx', 'conv_bn' }
for _, found in ipairs(pairs_of) do
  local claim = found.pair.case:match '^%S+'
  local text = verdict_of(found, CLAIMS[claim][1])
  counts[claim] = counts[claim] or {}
  counts[claim][text] = (counts[claim][text] or 0) + 1
  print(('%-26s %6.2f  %-14s %s'):format(found.pair.case, 1 / found.ratio,
    ('%.2f .. %.2f'):format(1 / found.ci_hi, 1 / found.ci_lo), text))
end
for _, claim in ipairs(order) do
  if counts[claim] then
    local parts = {}
    for text, n in pairs(counts[claim]) do parts[#parts + 1] = ('%s in %d'):format(text, n) end
    table.sort(parts)
    print(('%s: claimed %s; %s'):format(claim, CLAIMS[claim][2], table.concat(parts, ', ')))
  end
end
os.exit(summary.failed > 0 and 2 or 0)
