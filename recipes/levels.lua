-- SPDX-License-Identifier: MIT
--- What the levels BASIC, ADVANCED and ULTRA of document 001 bring: the same chain of transformer
--- blocks, the same data and the same number of sequences in a step, trained at each level; peak
--- memory as the allocator counted it, and the loss; then the time of a step by itself, with an
--- interval and a grade, and beside BASIC's, in paired blocks with an A/A control.
--
-- BASIC has attention by the whole matrix of weights, as the document's model has.  Document 001
-- claims half the memory for mixed precision and up to 80 % less for recomputation.
--
-- machine: any
-- time:    about five minutes on two cores
-- result:  a table, and what each level switched or could not
--
--     ./ridge recipes/levels.lua [--blocks 12] [--width 128] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'blocks', 12, 'of the chain', integer = true, min = 2 },
  { 'width', 128, 'size of a vector', integer = true, min = 4 },
  { 'heads', 4, 'of attention', integer = true, min = 1 },
  { 'length', 256, 'places of a sequence', integer = true, min = 1 },
  { 'batch', 32, 'sequences in a step; a multiple of 8', integer = true, min = 8 },
  { 'epochs', 3, 'the first of which makes the plan', integer = true, min = 2 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.blocks, opt.width, opt.length, opt.batch, opt.epochs = 2, 16, 16, 8, 2 end

-- what the last level needs is asked before the first one is trained
if opt.batch % 8 ~= 0 then
  error(('--batch %d: ULTRA makes a step of 8 batches, so a multiple of 8'):format(opt.batch), 0)
end

ridge.seed(1)
local n = 2 * opt.batch
local x = ridge.randn(n, opt.length, opt.width)
local y = x * 0.5 + ridge.randn(n, opt.length, opt.width) * 0.1

local function model()
  local net = nn.Sequential()
  for i = 1, opt.blocks do
    net:add(nn.TransformerBlock(opt.width, { heads = opt.heads, causal = true, kind = 'matrix',
      seed = i }))
  end
  return net
end

local function run(name)
  print(('\n%s'):format(name:upper()))
  collectgarbage()
  collectgarbage()
  ridge.memory.trim()
  local net = model()
  local trainer = ridge.Trainer(net, { optimizer = ridge.optim.AdamW(net, { lr = 1e-3 }),
    loss = nn.mse_loss, level = name, say = print })
  -- as many sequences in a step at each level: where batches are gathered they are smaller
  local batch = opt.batch / (trainer.options.accumulate or 1)
  collectgarbage()
  collectgarbage()
  local before = ridge.memory.stats().live -- data, weights, moments
  local history = trainer:fit(ridge.data.Loader({ x, y }, { batch = batch, seed = 1 }),
    { epochs = opt.epochs })
  local last, most = history[#history], 0
  for _, row in ipairs(history) do most = math.max(most, row.peak_bytes) end
  -- one step from here on: an epoch of as many sequences as a step takes
  trainer.say = function() end
  local one = ridge.data.Loader({ x:narrow(1, 1, opt.batch), y:narrow(1, 1, opt.batch) },
    { batch = batch, seed = 1 })
  local function step() trainer:fit(one, { epochs = trainer.epoch + 1 }) end
  -- with the buffers of plans
  return { name = name, peak = (last.peak_bytes - before) / 2 ^ 20, most = (most - before) / 2 ^ 20,
    loss = last.loss, weights = net:num_bytes() / 2 ^ 20, step = step }
end

local basic, found = nil, {}
for _, name in ipairs { 'basic', 'advanced', 'ultra' } do
  found[#found + 1] = run(name)
  basic = basic or found[1]
end

-- A step by the trainer is Lua around its plan, so the comparison says LUA; what they train is not
-- held against each other, the losses are below.
for _, r in ipairs(found) do r.own = ridge.measure.point(r.step, 'quick') end
for i = 2, #found do
  found[i].time = ridge.measure.ab { a = basic.step, b = found[i].step, check = false, blocks = 6,
    looks = opt.smoke and 1 or 2, labels = { a = 'basic', b = found[i].name } }
end

print(('\n%d blocks, width %d, %d sequences of %d places in a step, AdamW; weights %.1f MB'):format(
  opt.blocks, opt.width, opt.batch, opt.length, basic.weights))
print 'peak memory above data, weights and moments, in MB; the first epoch has the capture in it'
print('level      last epoch   of BASIC   any epoch     loss   step ms                interval  '
  .. 'grade  time of BASIC')
for _, r in ipairs(found) do
  print((('%-9s  %10.1f  %9.2f  %10.1f  %7.4f  %8.2f  %22s  %-5s  %s'):format(r.name, r.peak,
    r.peak / basic.peak, r.most, r.loss, r.own.med / 1e6,
    ('%.2f .. %.2f'):format(r.own.ci_lo / 1e6, r.own.ci_hi / 1e6), r.own.grade,
    r.time and r.time:short() or ''):gsub('%s+$', '')))
end
print 'times of grade D were disturbed: they are no comparison; the last column was timed in pairs'

local function said(r)
  return ('%s %+.0f %% memory, %.2f times the speed [%.2f .. %.2f]%s'):format(r.name:upper(),
    100 * (r.peak / basic.peak - 1), 1 / r.time.ratio, 1 / r.time.ci_hi, 1 / r.time.ci_lo,
    r.time.verdict == 'open' and ', undecided' or '')
end
print(('\nclaimed by document 001: half the memory and twice the speed by mixed precision, up to '
  .. '80 %% less memory by recomputation\nmeasured, all of a level together: %s; %s'):format(
  said(found[2]), said(found[3])))
