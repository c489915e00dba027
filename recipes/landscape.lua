-- SPDX-License-Identifier: MIT
--- Where do dense, low-rank and sketched linear layers run fast on this machine?
--
-- Measures the grid of document 002 (in 1024, out 512, batch 128; terms x rank) for the three kinds
-- of layer in f32 and bf16, keeps every trial in a database, draws the figures, and says where each
-- kind wins.  Running it again goes on where it was.
--
-- machine: any x86-64 Linux; bf16 is fast where the processor has AMX; --device cuda:0: its GPU
-- time:    about four minutes on two cores; --quick one, --rigorous half an hour
-- result:  results/ridge.db; results/landscape_f32.png, _bf16, _map, _ratio; a table
--
--     ./ridge recipes/landscape.lua [--quick|--rigorous|--smoke] [--terms 2,4 --ranks 16,32 ...]

local ridge = require 'ridge'
local measure = require 'ridge.measure'
local nn = ridge.nn

local opt = ridge.args {
  { 'n-in', 1024, 'inputs of the layer', integer = true, min = 1 },
  { 'n-out', 512, 'outputs of the layer', integer = true, min = 1 },
  { 'batch', 128, 'rows of one call', integer = true, min = 1 },
  { 'terms', { 2, 4, 6, 8, 12, 16 }, 'numbers of terms T', integer = true, min = 1 },
  { 'ranks', { 16, 32, 48, 64, 96, 128 }, 'ranks R of a term', integer = true,
    min = 1 },
  { 'layers', { 'dense', 'lowrank', 'sketched' }, 'kinds of layer',
    choices = { 'dense', 'lowrank', 'sketched' } },
  { 'dtypes', { 'f32', 'bf16' }, 'element types', choices = { 'f32', 'f64', 'bf16', 'f16' } },
  { 'forms', { 'stored', 'bits' }, 'how fixed signs are kept: stored, bits, seed' },
  { 'device', 'cpu', 'where to run' },
  { 'threads', 0, 'compute threads; 0: every processor', integer = true, min = 0, max = 1024 },
  { 'seed', 7, 'seed of weights, signs and order', integer = true, min = 0 },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'out', 'results', 'folder of the figures',
    writes = 'folder' },
  { 'name', '', 'name of the sweep; made from the options when left out' },
  { 'new', false, 'start a new sweep instead of going on' },
  { 'quick', false, 'fewer samples, about 3 % precision' },
  { 'rigorous', false, 'more samples, finer precision' },
  { 'mixed', false, 'points of unlike machines together, as if they were of one' },
  { 'quiet', false, "by the time in the machine's fast state, not by the median" },
  { 'smoke', false, 'a toy grid in seconds, to see that everything works' },
}

if opt.smoke then
  opt.n_in, opt.n_out, opt.batch = 64, 32, 8
  opt.terms, opt.ranks, opt.dtypes = { 1, 2 }, { 4, 8 }, { 'f32' }
end
if opt.out == '' then opt.out = '.' end
require('ridge.store.place').make_folder(opt.out) -- before any work, also the one by default
local I, O, B = opt.n_in, opt.n_out, opt.batch
local device = opt.device == 'auto' and 'cpu' or opt.device
local on_cpu = device == 'cpu'
ridge.set_num_threads(opt.threads)
ridge.seed(opt.seed)

local level = opt.smoke and 'quick' or opt.quick and 'quick' or opt.rigorous and 'rigorous'
  or 'demo'

-- -- The grid
-- ---------------------------------------------------------------------------------------

--- Ranks at which a low-rank layer stores as many numbers as some sketched one: k = 2TR.
local function equal_byte_ranks()
  local seen, list = {}, {}
  for _, t in ipairs(opt.terms) do
    for _, r in ipairs(opt.ranks) do
      if not seen[2 * t * r] then
        seen[2 * t * r] = true
        list[#list + 1] = 2 * t * r
      end
    end
  end
  table.sort(list)
  return list
end

local function is_sketched(p) return p.layer == 'sketched' end
local function is_lowrank(p) return p.layer == 'lowrank' end

local dense = nn.Linear(I, O, { seed = opt.seed })
local W = dense:effective_weight()
local W_norm = W:norm():item()

local function make(p)
  local layer
  if p.layer == 'dense' then
    layer = dense:clone()
  elseif p.layer == 'lowrank' then
    layer = nn.LowRankLinear.from(dense, { rank = p.rank })
  else
    layer = nn.SKLinear.from(dense, { num_terms = p.num_terms, low_rank = p.low_rank,
                                      seed = opt.seed, form = p.form, warn = false })
  end
  layer:to(p.dtype)
  return on_cpu and layer or layer:to(device)
end

-- What is compared with the dense weight is compared where that is.
local function weight_of(layer) return layer:effective_weight():to('cpu'):to('f32') end

local sw = ridge.sweep(opt.name ~= '' and opt.name
    or ('landscape-%dx%d-b%d-%s%s'):format(I, O, B, level,
      on_cpu and '' or '-' .. device:gsub('%W', ''))) {
  space = {
    layer = ridge.any(opt.layers),
    dtype = ridge.any(opt.dtypes),
    num_terms = ridge.when(is_sketched, ridge.any(opt.terms)),
    low_rank = ridge.when(is_sketched, ridge.any(opt.ranks)),
    form = ridge.when(is_sketched, ridge.any(opt.forms)),
    rank = ridge.when(is_lowrank, ridge.any(equal_byte_ranks())),
  },
  seed = opt.seed,
  args = { n_in = I, n_out = O, batch = B, threads = ridge.num_threads(), device = opt.device },
  device = device,
  protocol = measure.protocol(level),

  -- the dense layer is timed beside every other one in every pass, so that the machine's mood
  -- falls on both
  partner = function(p)
    return p.layer ~= 'dense' and { layer = 'dense', dtype = p.dtype } or nil
  end,

  setup = function(p, m)
    if p.layer == 'lowrank' and p.rank > math.min(I, O) then
      m:infeasible(('rank %d is more than full rank %d'):format(p.rank, math.min(I, O)))
    end
    local g = ridge.generator(opt.seed)
    local x = ridge.randn(B, I, { generator = g }):to(p.dtype)
    return { layer = make(p), x = on_cpu and x or x:to(device) }
  end,

  -- a fast wrong kernel is refused: the layer must agree with its own effective matrix
  check = function(p, c)
    local y = ridge.inference(c.layer, c.x):to('cpu'):to('f32')
    local expected = c.x:to('cpu'):to('f32'):matmul(weight_of(c.layer):t())
    if c.layer.bias then expected = expected + c.layer.bias:to('cpu'):to('f32') end
    local off = ((y - expected):norm() / expected:norm()):item()
    local bound = p.dtype == 'f32' and 1e-4 or 3e-2
    return off <= bound, ('the output is off by %.2g of its size'):format(off)
  end,

  measure = function(p, c, m)
    local function forward() return ridge.inference(c.layer, c.x) end
    m:time('fwd', ridge.capture(forward))
    local facts = c.layer:facts()
    m:cost('fwd', { flops = facts.flops_per_row * B, dtype = p.dtype,
                    sign_flops = 2 * B * (facts.stored_count - facts.trainable_count),
                    bytes = facts.stored_bytes + c.x.bytes + B * O * c.x.bytes / c.x.count })
    if m.pass > 1 then return end -- what follows is the same in every pass
    -- parameters, their packed copies, the input, and what a call needs on top, in a run of its own
    m:metric('peak_bytes', facts.stored_bytes + facts.packed_bytes + c.x.bytes
      + ridge.memory.peak_of(forward, device), { unit = 'byte', better = 'lower' })
    m:metric('param_count', facts.trainable_count)
    m:metric('stored_count', facts.stored_count)
    m:metric('stored_bytes', facts.stored_bytes, { unit = 'byte', better = 'lower' })
    m:metric('rel_error', ((weight_of(c.layer) - W):norm() / W_norm):item(),
      { better = 'lower' })
  end,
}

-- -- Measuring
-- -----------------------------------------------------------------------------------------

local db = opt.db ~= '' and opt.db or nil
io.stderr:write(ridge.backend.describe(), '\n')
-- toy sizes say nothing of the machine, and nothing is held against its ceilings; the run measures
-- these, so that what only looks (--dry-run) measures nothing
local lab = require('ridge.sweep.device').lab(device)
local summary = sw:run { db = db, new = opt.new, lab = lab, probe = on_cpu and not opt.smoke,
  calibrate = not opt.smoke and (opt.rigorous and 'long' or true) }

-- -- What was found -----------------------------------------------------------------------------

local report = require 'ridge.report.landscape'
local shape = { n_in = I, n_out = O, batch = B }
local time = opt.quiet and 'quiet' or 'med'
local measured = sw:results()
local unlike, machines = require('ridge.sweep.unlike').of_rows(measured)
if opt.mixed and unlike then measured = sw:results { mixed = true } end
local rows = report.by_time(report.rows(measured, shape), shape, time)
local facts = lab.facts().device
-- the roofs of a device: its own ceilings and its one cache that all share
local machine = on_cpu and ridge.backend.machine() or { l2 = facts.facts.l2, threads = 1 }
machine.ceilings = not opt.smoke and not unlike -- these of one are no roofs of another
  and require('ridge.sweep.calibrated').stored(summary.path, device) or nil
print(report.table(rows, machine))
if unlike then io.stderr:write('landscape: ', unlike, '\n') end
if unlike and not opt.mixed then
  io.stderr:write('so nothing is compared or drawn: --mixed does it as if they were of one '
    .. 'machine, --new measures all of them here\n')
  os.exit(1)
end
print(report.verdict(rows, shape))

local about = { device = machines or on_cpu and ridge.backend.describe() or facts.name,
                sweep = summary.name,
                database = summary.path:match('[^/]+$'), date = os.date('%Y-%m-%d'),
                version = ridge.version(), query = summary.name, time = time }

local unwritten = false

local function save(file, draw, more)
  local given = {}
  for key, value in pairs(about) do given[key] = value end
  for key, value in pairs(more) do given[key] = value end
  local path = ('%s/%s%s.png'):format(opt.out, file, on_cpu and '' or '_' .. device:gsub('%W', ''))
  -- a figure that lacks what it needs (the dense layer ran out of memory) is not the end; one that
  -- cannot be written is a failure of the run
  local ok, reason = pcall(function()
    local drawn = {}
    for i, row in ipairs(report.faster_forms(rows)) do drawn[i] = row.of or row end
    draw(drawn, given):save(path)
  end)
  unwritten = unwritten or not ok and type(reason) == 'table' and reason.code == 'EIO'
  io.stderr:write(path, ok and '' or (': not drawn: %s'):format(tostring(reason):match '[^\n]*'),
    '\n')
end

for _, dtype in ipairs(opt.dtypes) do
  save('landscape_' .. dtype, ridge.plot.landscape, { dtype = dtype })
end
save('landscape_map', ridge.plot.map, {})
save('landscape_ratio', ridge.plot.map, { ratio = true })
os.exit(summary.failed > 0 and 2 or unwritten and 1 or 0)
