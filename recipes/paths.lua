-- SPDX-License-Identifier: MIT
--- Where do ridge's own products win on this machine, where oneDNN, where OpenBLAS?
--
-- Measures a linear layer of every width at every batch by each path, side by side in every pass,
-- and draws which one is fastest where, and by how much. Each path computes the same, and is held
-- against the others before it is timed.
--
-- machine: any; bf16 by OpenBLAS is converted to f32
-- time:    about four minutes on two cores; --quick one
-- result:  results/ridge.db; results/paths.png; a table
--
--     ./ridge recipes/paths.lua [--dtype bf16] [--widths 64,256,1024] [--batches 1,16] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local PATHS = { 'own', 'onednn', 'openblas' }

local opt = ridge.args {
  { 'widths', { 32, 64, 128, 256, 512, 1024 }, 'inputs and outputs of the layer', integer = true,
    min = 1 },
  { 'batches', { 1, 2, 4, 16, 64, 256 }, 'rows of one call', integer = true, min = 1 },
  { 'dtype', 'f32', 'element type', choices = { 'f32', 'bf16' } },
  { 'threads', 0, 'compute threads; 0: every processor', integer = true, min = 0, max = 1024 },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'out', 'results/paths.png', 'PNG file of the figure', writes = 'file' },
  { 'new', false, 'start a new sweep instead of going on' },
  { 'quick', false, 'fewer samples' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.widths, opt.batches, opt.quick = { 16, 33 }, { 1, 3 }, true end
local folder = opt.out:match '^(.+)/'
if folder then require('ridge.store.place').make_folder(folder) end -- before any work
ridge.set_num_threads(opt.threads)

--- What a function returns while products take a path.
local function by_path(path, f, ...)
  local was = ridge.backend.now().gemm
  ridge.set_default_backend(ridge.backend.cpu { gemm = path })
  local y = f(...)
  ridge.set_default_backend(ridge.backend.cpu { gemm = was })
  return y
end

local sw = ridge.sweep('paths-' .. opt.dtype .. (opt.smoke and '-smoke' or '')) {
  space = { width = opt.widths, batch = opt.batches, path = PATHS },
  args = { dtype = opt.dtype, threads = ridge.num_threads() },
  protocol = opt.quick and 'quick' or 'demo',

  -- own products are timed beside the libraries in every pass
  partner = function(p)
    return p.path ~= 'own' and { width = p.width, batch = p.batch, path = 'own' } or nil
  end,

  -- a plan replays by the path it was captured under
  setup = function(p)
    local layer = nn.Linear(p.width, p.width, { seed = 1 }):to(opt.dtype):eval()
    local x = ridge.randn(p.batch, p.width, { generator = ridge.generator(2) }):to(opt.dtype)
    local plan = by_path(p.path, ridge.capture, ridge.inference, layer, x)
    return { layer = layer, x = x, plan = plan }
  end,

  check = function(_, c)
    local y = c.plan:run():to 'f32'
    local W, b = c.layer.weight:to 'f64', c.layer.bias:to 'f64'
    local expected = (c.x:to('f64'):matmul(W:t()) + b):to 'f32'
    local off = ((y - expected):norm() / expected:norm()):item()
    return off <= (opt.dtype == 'f32' and 1e-5 or 2e-2), ('the output is off by %.2g'):format(off)
  end,

  measure = function(_, c, m) m:time('fwd', c.plan) end,
}
local summary = sw:run { db = opt.db ~= '' and opt.db or nil, new = opt.new,
  calibrate = not opt.smoke }

-- -- What was found -----------------------------------------------------------------------------

local figure = sw:plot('winner', { x = 'width', y = 'batch', z = 'fwd', of = 'path' })
figure:save(opt.out)
print(figure.finding)
os.exit(summary.failed > 0 and 2 or 0)
