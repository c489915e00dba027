-- SPDX-License-Identifier: MIT
--- What recomputation costs and brings: a training step of a chain of transformer blocks, cut into
-- so many segments each of which keeps only its input, beside the step that keeps everything.
--
-- The documents behind ridge claim 30 to 40 % less memory for 10 to 15 % more time (000), and up to
-- 80 % less (001).
--
-- machine: any
-- time:    about two minutes on two cores
-- result:  a table of segments, time and peak memory, both in results/ridge.db as sweep recompute
--
--     ./ridge recipes/recompute.lua [--blocks 12] [--width 128] [--device cuda:0] [--quick]
--       [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'blocks', 12, 'of the chain', integer = true, min = 1 },
  { 'width', 128, 'size of a vector', integer = true, min = 4 },
  { 'heads', 4, 'of attention', integer = true, min = 1 },
  { 'length', 128, 'places of a sequence', integer = true, min = 1 },
  { 'batch', 16, 'sequences', integer = true, min = 1 },
  { 'device', 'cpu', "where it trains: 'cpu', 'cuda:0'" },
  { 'db', 'results/ridge.db', 'database file' },
  { 'quick', false, 'fewer rounds' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then
  opt.blocks, opt.width, opt.length, opt.batch, opt.quick = 4, 16, 16, 2, true
end

-- 0: nothing is computed again; then every number of segments that divides the blocks.
local segments = { 0 }
for n = 1, opt.blocks do
  if opt.blocks % n == 0 then segments[#segments + 1] = n end
end

local function setup(p)
  local net = nn.Sequential()
  for i = 1, opt.blocks do
    net:add(nn.TransformerBlock(opt.width, { heads = opt.heads, causal = true, seed = i }))
  end
  net:train():to(opt.device)
  if p.segments > 0 then net:recompute(p.segments) end
  local there = { device = opt.device }
  local x, y = ridge.randn(opt.batch, opt.length, opt.width, there),
    ridge.randn(opt.batch, opt.length, opt.width, there)
  local optimizer = ridge.optim.AdamW(net, { lr = 1e-3 })
  local function step()
    optimizer:zero_grad { set = true }
    nn.mse_loss(net(x), y):backward()
    optimizer:step()
  end
  step() -- gradients are there from now on
  return { net = net, step = step, plan = ridge.capture(step), x = x, y = y }
end

local sw = ridge.sweep 'recompute' {
  space = { segments = segments },
  args = { blocks = opt.blocks, width = opt.width, heads = opt.heads, length = opt.length,
    batch = opt.batch, device = opt.device },
  protocol = opt.quick and 'quick' or 'demo',
  setup = setup,
  measure = function(_, c, m)
    m:time('step', c.plan)
    m:peak('step', c.step)
    local saved = 0
    local loss = nn.mse_loss(c.net(c.x), c.y)
    for _, e in ipairs(ridge.grad_saved(loss)) do
      if not e.param then saved = saved + e.bytes end
    end
    m:metric('kept_mb', saved / 2 ^ 20, { unit = 'MB', better = 'lower' })
  end,
}
sw:run { db = opt.db, calibrate = not opt.smoke }

local rows, plain = sw:results { db = opt.db }, nil
for _, row in ipairs(rows) do if row.segments == 0 then plain = row end end
table.sort(rows, function(a, b) return a.segments < b.segments end)
print(('\n%d blocks, width %d, %d sequences of %d places, AdamW; the whole step as a plan'):format(
  opt.blocks, opt.width, opt.batch, opt.length))
print 'segments   step ms   of plain   kept for the way back MB   peak MB   of plain   grade'
for _, row in ipairs(rows) do
  if row.step then
    print(('%8s  %8.2f  %9.2f  %25.1f  %8.1f  %9.2f   %s'):format(
      row.segments == 0 and 'none' or row.segments, row.step / 1e6, row.step / plain.step,
      row.kept_mb, row.step_peak_bytes / 2 ^ 20, row.step_peak_bytes / plain.step_peak_bytes,
      row.grade or '?'))
  end
end

-- The cheapest setting and the one that takes least memory, against what is claimed.
local least
for _, row in ipairs(rows) do
  if row.step and row.segments > 0
    and (not least or row.step_peak_bytes < least.step_peak_bytes) then least = row end
end
if plain and plain.step and least then
  print(('\nclaimed: 30 to 40 %% less memory for 10 to 15 %% more time (000), up to 80 %% less '
    .. 'memory (001)\nmeasured: %.0f %% less memory for %.0f %% more time, with %d segments')
    :format(
    100 * (1 - least.step_peak_bytes / plain.step_peak_bytes), 100 * (least.step / plain.step - 1),
    least.segments))
end
