-- SPDX-License-Identifier: MIT
--- Where which attention runs fast: the whole matrix of weights, a tile at a time, a mask that
--- leaves out three blocks of four, and random features, over the length of the sequence; time and
--- memory, and how far the estimate by features is from the exact result.
--
-- Each point is timed by itself, with an interval and a grade; how the kinds stand to the whole
-- matrix is timed once more, in paired blocks beside an A/A control.
--
-- machine: any
-- time:    about four minutes on two cores
-- result:  a table, in results/ridge.db as sweep attention, and a figure beside it
--
--     ./ridge recipes/attention.lua [--lengths 256,1024,4096] [--causal] [--dtype bf16] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'lengths', { 256, 512, 1024, 2048, 4096 }, 'of the sequence', integer = true, min = 1 },
  { 'heads', 8, 'each with its own queries, keys and values', integer = true, min = 1 },
  { 'size', 64, 'of a head', integer = true, min = 1 },
  { 'features', 64, 'random ones of a head', integer = true, min = 1 },
  { 'causal', false, 'no place sees those behind it' },
  { 'dtype', 'f32', 'of queries, keys and values', choices = { 'f32', 'bf16' } },
  { 'db', 'results/ridge.db', 'database file' },
  { 'out', 'results/attention.png', 'PNG file of the figure',
    writes = 'file' },
  { 'new', false, 'start a new sweep instead of going on' },
  { 'quick', false, 'fewer rounds' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
local folder = opt.out:match '^(.+)/'
if folder then require('ridge.store.place').make_folder(folder) end -- before any work
if opt.smoke then opt.lengths, opt.heads, opt.quick = { 64, 256 }, 2, true end

-- One block of four in each row: the one on the diagonal, then every fourth.
local function quarter(n)
  local blocks = math.ceil(n / 64)
  local mask = ridge.zeros(blocks, blocks)
  for i = 1, blocks do
    for j = i % 4 == 0 and 4 or i % 4, blocks, 4 do
      mask:narrow(1, i, 1):narrow(2, j, 1):fill_(1)
    end
  end
  return mask:to 'bool'
end

local KIND = {}

function KIND.matrix(q, k, v)
  local n, hidden = q:size(3), nil
  if opt.causal then
    local row, column = ridge.arange(0, n - 1):reshape(n, 1), ridge.arange(0, n - 1)
    hidden = column:gt(row):to(q.dtype) * -1e9
  end
  return function()
    local scores = q:matmul(k:transpose(3, 4)) * opt.size ^ -0.5
    return (hidden and scores + hidden or scores):softmax(-1):matmul(v)
  end
end

function KIND.tiles(q, k, v)
  return function() return nn.attention(q, k, v, { causal = opt.causal }) end
end

function KIND.quarter(q, k, v)
  local mask = quarter(q:size(3))
  return function() return nn.attention(q, k, v, { causal = opt.causal, mask = mask }) end
end

function KIND.features(q, k, v)
  local omega = nn.random_features(opt.features, opt.size, 1):to(opt.dtype)
  return function() return nn.feature_attention(q, k, v, omega, { causal = opt.causal }) end
end

local sw = ridge.sweep 'attention' {
  space = { length = opt.lengths, kind = { 'matrix', 'tiles', 'quarter', 'features' } },
  args = { heads = opt.heads, size = opt.size, features = opt.features, causal = opt.causal,
    dtype = opt.dtype },
  protocol = opt.quick and 'quick' or 'demo',
  setup = function(p)
    ridge.seed(1)
    local function made() -- scores of about 1: with larger ones the estimate is worse
      return (ridge.randn(1, opt.heads, p.length, opt.size) * 0.35):to(opt.dtype)
    end
    local q, k, v = made(), made(), made()
    local f = KIND[p.kind](q, k, v)
    return { f = f, plan = ridge.capture(f), exact = nn.attention(q, k, v,
      { causal = opt.causal }) }
  end,
  measure = function(p, c, m)
    m:time('fwd', c.plan)
    m:peak('fwd', c.f)
    if p.kind ~= 'quarter' then
      local y = c.f()
      m:metric('error', ((y - c.exact):norm() / c.exact:norm()):item(), { better = 'lower' })
    end
  end,
}
local summary = sw:run { db = opt.db, new = opt.new, calibrate = not opt.smoke }

-- -- What was found -----------------------------------------------------------------------------

local by = {}
for _, row in ipairs(sw:results { db = opt.db }) do
  by[row.length] = by[row.length] or {}
  by[row.length][row.kind] = row
end

-- Time over that of the whole matrix, in paired blocks.  Tiles have to compute the same.
local function against_matrix(row)
  local matrix = by[row.length].matrix
  if row.kind == 'matrix' or not (row.fwd and matrix and matrix.fwd) then return '' end
  return sw:ab { a = { kind = 'matrix', length = row.length },
    b = { kind = row.kind, length = row.length }, check = row.kind == 'tiles', processes = 1,
    blocks = opt.quick and 8 or nil, looks = opt.quick and 1 or nil, db = opt.db }[1]:short()
end

print(('%d heads of %d, %s%s; forward; medians with their 95 %% intervals'):format(opt.heads,
  opt.size, opt.dtype, opt.causal and ', causal' or ''))
print 'length  kind            ms                interval  grade   peak MB   error  time of matrix'
for _, n in ipairs(opt.lengths) do
  for _, kind in ipairs { 'matrix', 'tiles', 'quarter', 'features' } do
    local row = by[n][kind]
    if row.fwd then
      print((('%6d  %-8s  %8.3f  %22s  %-5s  %8.1f  %6s  %s'):format(n, kind, row.fwd / 1e6,
        ('%.3f .. %.3f'):format(row.fwd_lo / 1e6, row.fwd_hi / 1e6), row.grade,
        row.fwd_peak_bytes / 2 ^ 20, row.error and ('%.3f'):format(row.error) or '-',
        against_matrix(row)):gsub('%s+$', '')))
    else
      print(('%6d  %-8s  %s'):format(n, kind, row.state))
    end
  end
end
print 'times of grade D were disturbed: they are no comparison; the last column was timed in paired'
print 'blocks with the matrix, and names behind the verdict what ran meanwhile.'
sw:plot('slices', { x = 'length', y = 'fwd', by = 'kind' }):save(opt.out)
os.exit(summary.failed > 0 and 2 or 0)
