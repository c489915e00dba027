-- SPDX-License-Identifier: MIT
--- What the levels BASIC, ADVANCED and ULTRA of document 001 bring: the same chain of transformer
-- blocks, the same data and the same number of sequences in a step, trained at each level; peak
-- memory as the allocator counted it, time and loss beside it.
--
-- BASIC has attention by the whole matrix of weights, as the document's model has.  Document 001
-- claims half the memory for mixed precision and up to 80 % less for recomputation.
--
-- machine: any
-- time:    about two minutes on two cores
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
  { 'epochs', 3, 'the first of which is not timed', integer = true, min = 2 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.blocks, opt.width, opt.length, opt.batch, opt.epochs = 2, 16, 16, 8, 2 end

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
  -- with the buffers of plans
  return { name = name, peak = (last.peak_bytes - before) / 2 ^ 20, most = (most - before) / 2 ^ 20,
    rows = last.rows_per_s, loss = last.loss, weights = net:num_bytes() / 2 ^ 20 }
end

local basic, found = nil, {}
for _, name in ipairs { 'basic', 'advanced', 'ultra' } do
  found[#found + 1] = run(name)
  basic = basic or found[1]
end

print(('\n%d blocks, width %d, %d sequences of %d places in a step, AdamW; weights %.1f MB'):format(
  opt.blocks, opt.width, opt.batch, opt.length, basic.weights))
print 'peak memory above data, weights and moments, in MB; the first epoch has the capture in it'
print 'level      last epoch   of BASIC   any epoch   sequences/s   of BASIC   loss'
for _, r in ipairs(found) do
  print(('%-9s  %10.1f  %9.2f  %10.1f  %12.1f  %9.2f   %.4f'):format(r.name, r.peak,
    r.peak / basic.peak, r.most, r.rows, r.rows / basic.rows, r.loss))
end

print(('\nclaimed by document 001: half the memory and twice the speed by mixed precision, up to '
  .. '80 %% less memory by recomputation\nmeasured, all of a level together: ADVANCED %+.0f %% '
  .. 'memory and %.2f times the speed, ULTRA %+.0f %% and %.2f times'):format(
  100 * (found[2].peak / basic.peak - 1), found[2].rows / basic.rows,
  100 * (found[3].peak / basic.peak - 1), found[3].rows / basic.rows))
