-- SPDX-License-Identifier: MIT
--- What recomputation costs and brings: a training step of a chain of transformer blocks, cut into
--- so many segments each of which keeps only its input, beside the step that keeps everything.
--
-- The documents behind ridge claim 30 to 40 % less memory for 10 to 15 % more time (000), and up to
-- 80 % less (001).
--
-- Each setting is timed by itself, with an interval and a grade; how it stands to the step that
-- keeps everything is timed once more, in paired blocks beside an A/A control.
--
-- machine: any
-- time:    about three minutes on two cores
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
  { 'new', false, 'start a new sweep instead of going on' },
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
local summary = sw:run { db = opt.db, new = opt.new, calibrate = not opt.smoke }

-- -- What was found -----------------------------------------------------------------------------

local rows, plain = sw:results { db = opt.db }, nil
for _, row in ipairs(rows) do if row.segments == 0 then plain = row end end
table.sort(rows, function(a, b) return a.segments < b.segments end)

-- Against the step that keeps everything, in paired blocks; both train, so the weights that they
-- come to are not held against each other.
local function against_plain(row)
  if row.segments == 0 or not (row.step and plain and plain.step) then return nil end
  return sw:ab { a = { segments = 0 }, b = { segments = row.segments }, check = false,
    processes = 1, blocks = opt.quick and 8 or nil, looks = opt.quick and 1 or nil,
    db = opt.db }[1]
end

print(('\n%d blocks, width %d, %d sequences of %d places, AdamW; the whole step as a plan'):format(
  opt.blocks, opt.width, opt.batch, opt.length))
print('segments   step ms                interval  grade  kept for backward pass MB   peak MB   '
  .. 'of plain  time of plain')
---@type table?, table?
local least, paired
for _, row in ipairs(rows) do
  local found = against_plain(row)
  if row.step then
    print((('%8s  %8.2f  %22s  %-5s  %25.1f  %8.1f  %9s  %s'):format(
      row.segments == 0 and 'none' or row.segments, row.step / 1e6,
      ('%.2f .. %.2f'):format(row.step_lo / 1e6, row.step_hi / 1e6), row.grade, row.kept_mb,
      row.step_peak_bytes / 2 ^ 20, plain and plain.step
        and ('%.2f'):format(row.step_peak_bytes / plain.step_peak_bytes) or '-',
      found and found:short() or ''):gsub('%s+$', '')))
  else
    print(('%8d  %s'):format(row.segments, row.state))
  end
  -- the setting that takes least memory, against what is claimed
  if found and (not least or row.step_peak_bytes < least.step_peak_bytes) then
    least, paired = row, found
  end
end

if least and paired and plain then
  print(('\nclaimed: 30 to 40 %% less memory for 10 to 15 %% more time (000), up to 80 %% less '
    .. 'memory (001)\nmeasured: %.0f %% less memory for %+.0f %% time [%+.0f .. %+.0f], %s, with '
    .. '%d segments'):format(
    100 * (1 - least.step_peak_bytes / plain.step_peak_bytes), 100 * (paired.ratio - 1),
    100 * (paired.ci_lo - 1), 100 * (paired.ci_hi - 1),
    paired.verdict == 'open' and 'undecided' or paired.verdict, least.segments))
end
os.exit(summary.failed > 0 and 2 or 0)
