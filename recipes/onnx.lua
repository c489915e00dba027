-- SPDX-License-Identifier: MIT
--- How does an ONNX file's net run here, over batch and threads?
--
-- Loads the file, records it at every batch, lets the passes of 'standard' run, and times the plan
-- at every number of threads, side by side in every pass. Rows a second say which batch pays.
--
-- machine: any
-- time:    some seconds a point and pass
-- result:  results/ridge.db; a table
--
--     ./ridge onnx bench net.onnx [--batches 1,8,64] [--threads 1,2] [--batch-name N]

local ridge = require 'ridge'
local draw = require 'ridge.onnx.draw'

local opt = ridge.args {
  { 'file', '', 'the ONNX file' },
  { 'batches', { 1, 8, 64 }, 'rows of one call, where the file leaves that open', integer = true,
    min = 1 },
  { 'threads', { 1, ridge.num_threads() }, 'compute threads', integer = true, min = 1, max = 1024 },
  { 'batch_name', '', 'the open size that is the batch; the first one when left out' },
  { 'passes', 'standard', 'passes over the graph', choices = { 'none', 'standard', 'aggressive' } },
  { 'name', '', 'of the sweep; onnx- and the file when left out' },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'new', false, 'start a new sweep instead of going on' },
  { 'quick', false, 'fewer samples' },
  { 'calibrate', true, 'measure the ceilings of this machine, where nobody did' },
}
if opt.file == '' then
  io.stderr:write('onnx: which file? --file net.onnx\n')
  os.exit(1)
end
local model = ridge.onnx.load(opt.file)

-- The open size that a batch is.
local open = draw.open(model)
local batch = opt.batch_name ~= '' and opt.batch_name or open[1]
if opt.batch_name ~= '' then draw.check(model, { [batch] = 1 }) end
local batches = batch and opt.batches or { 1 }
if not batch then
  io.stderr:write(('onnx: %s has one batch, which it fixes\n'):format(opt.file))
end
local threads, seen = {}, {}
for _, n in ipairs(opt.threads) do
  if not seen[n] then threads[#threads + 1], seen[n] = n, true end
end

--- The rows of a call: the first size of the first input.
local function rows_of(inputs)
  return inputs[1] and inputs[1].ndim > 0 and inputs[1]:size(1) or 1
end

local base = opt.file:match '([^/]+)$':gsub('%.onnx$', ''):gsub('[^%w_%-]', '_')
local sw = ridge.sweep(opt.name ~= '' and opt.name or 'onnx-' .. base) {
  space = { batch = batches, threads = threads },
  args = { file = opt.file, passes = opt.passes },
  protocol = opt.quick and 'quick' or 'demo',

  setup = function(p)
    ridge.set_num_threads(p.threads)
    local inputs = draw.inputs(model, batch and { [batch] = p.batch } or {}, 1)
    local graph = ridge.graph(model, unpack(inputs))
    local plan = (opt.passes ~= 'none' and graph:optimize(opt.passes) or graph):plan()
    return { inputs = inputs, plan = plan, rows = rows_of(inputs) }
  end,

  -- what the plan gives is what the file gives when it is called
  check = function(_, c)
    local expected = { ridge.inference(model, unpack(c.inputs)) }
    local got = { c.plan() }
    for i, y in ipairs(expected) do
      if y.count > 0 and y.dtype:find '^f' then
        local top = math.max(y:to('f64'):abs():max():item(), 1e-30)
        local off = (y:to 'f64' - got[i]:to 'f64'):abs():max():item() / top
        if not (off <= 1e-4) then return false, ('output %d is off by %.2g'):format(i, off) end
      end
    end
    return true
  end,

  -- points of several numbers of threads take turns
  measure = function(p, c, m)
    ridge.set_num_threads(p.threads)
    m:time('fwd', c.plan)
  end,
}
local summary = sw:run { db = opt.db ~= '' and opt.db or nil, new = opt.new,
  calibrate = opt.calibrate }

if summary.failed >= #batches * #threads then os.exit(2) end -- there is no time to print
print(ridge.query(sw.name, { columns = 'batch, threads, fwd, fwd_lo, fwd_hi, grade',
  sort = 'batch', db = opt.db ~= '' and opt.db or nil }))
os.exit(summary.failed > 0 and 2 or 0)
