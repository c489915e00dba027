-- SPDX-License-Identifier: MIT
--- The pipeline that document 003 recommends, on digits: benchmark, profile, optimize, prune,
--- quantize, export, benchmark; each step with what it measured and a verdict.
--
-- Each step is held against the network as it was trained: time in paired blocks of plans, accuracy
-- by pairs of answers on test images that no step has seen. A step that gains nothing says so.
--
-- machine: any
-- time:    about a minute on two cores
-- result:  a row a step; the file of the network at the end
--
--     ./ridge --threads 1 recipes/pipeline.lua [--data DIR] [--batch 1] [--out net.onnx]

local ridge = require 'ridge'
local accuracy = require 'ridge.quant.accuracy'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST; digits made here when left out' },
  { 'epochs', 6, 'of training', integer = true, min = 1 },
  { 'tune', 2, 'epochs behind each step of pruning', integer = true, min = 1 },
  { 'batch', 1, 'rows that are timed', integer = true, min = 1 },
  { 'sparsity', 0.7, 'share of weights that are pruned, in blocks', min = 0.01, max = 0.99 },
  { 'max_drop', 0.01, 'of accuracy that is allowed, as a share', min = 0, max = 1 },
  { 'seed', 1, 'of weights and batches', integer = true, min = 0 },
  { 'out', '', 'ONNX file; in a temporary place when left out', writes = 'file' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.epochs, opt.tune = 1, 1 end

-- -- Data and network -----------------------------------------------------------------------------

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  local n, n_test = opt.smoke and 200 or 5000, opt.smoke and 100 or 1500
  local images, labels = ridge.data.segments(n + n_test, { seed = 1, noise = 60 })
  sets = { train = { images = images:narrow(1, 1, n), labels = labels:narrow(1, 1, n) },
    test = { images = images:narrow(1, n + 1, n_test), labels = labels:narrow(1, n + 1, n_test) } }
  print 'no --data given: digits of seven strokes, made here'
end

local function rows(set)
  local n = set.images:size(1)
  return (set.images:to 'f32' / 255):reshape(n, 784), set.labels:contiguous()
end
local x, y = rows(sets.train)
local test_x, test_y = rows(sets.test)
local one = test_x:narrow(1, 1, math.min(opt.batch, test_x:size(1)))
local test = ridge.data.Loader({ test_x, test_y }, { batch = 100, shuffle = false })
local calibrate = ridge.data.Loader({ x:narrow(1, 1, math.min(500, x:size(1))) }, { batch = 100,
  shuffle = false })

local function train(net, epochs)
  local optimizer = ridge.optim.Adam(net:train(), { lr = 2e-3 })
  local batches = ridge.data.Loader({ x, y }, { batch = 50, seed = opt.seed })
  for _ = 1, epochs do
    for a, b in batches:each() do
      ridge.scope(function()
        optimizer:zero_grad()
        nn.cross_entropy(net(a), b):backward()
        optimizer:step()
      end)
      if ridge.stopping() then os.exit(130) end
    end
  end
end

local net = nn.Sequential(nn.Linear(784, 128, { seed = 100 * opt.seed }), nn.ReLU(),
  nn.Linear(128, 10, { seed = 100 * opt.seed + 1 }))
train(net, opt.epochs)
net:eval()

-- -- Rows -----------------------------------------------------------------------------------------

local function say(step, found, verdict)
  print(('%-10s %-28s %s'):format(step, verdict, found))
  if ridge.stopping() then os.exit(130) end
end

local plain = ridge.capture(ridge.inference, net, one)

-- A plan beside the network's own; the time of the first one is that of the paired blocks too.
local function faster(plan)
  local found = ridge.measure.ab { a = plain, b = plan, check = false }
  local text = ('%.2f times as fast [%.2f, %.2f]'):format(1 / found.ratio, 1 / found.ci_hi,
    1 / found.ci_lo)
  return text, found.verdict == 'faster' and 'faster' or found.verdict == 'slower' and 'slower'
    or 'nothing gained', found
end

local function answers(other)
  local a = accuracy.pair(net, other, test, 'pipeline')
  local d = a.difference
  local text = ('accuracy %.2f %%, %+.2f [%+.2f, %+.2f], %d changed'):format(
    100 * a.quantized.share, 100 * d.share, 100 * d.lo, 100 * d.hi, a.changed)
  return text, d.lo >= -opt.max_drop and 'drop holds' or d.hi < -opt.max_drop
    and 'drops too much' or 'drop open', a
end

local function compared(step, other, plan, more)
  local speed, gained = faster(plan)
  local right, kept = answers(other)
  say(step, ('%s; %s%s'):format(speed, right, more or ''), gained .. ', ' .. kept)
end

local function megabytes(bytes) return ('%.3f MB'):format(bytes / 2 ^ 20) end

local function size_of(path)
  local file = assert(io.open(path, 'rb'))
  local n = file:seek 'end'
  file:close()
  return n
end

-- -- The steps ------------------------------------------------------------------------------------

print(('784-128-10, %d rows timed, %d thread%s, accuracy on %d rows; verdicts against the network '
  .. 'as trained, drop: at most %g %%'):format(one:size(1), ridge.num_threads(), ridge.num_threads()
  == 1 and '' or 's', test_x:size(1), 100 * opt.max_drop))

local before = ridge.measure.point(plain, 'quick')
say('benchmark', ('%.2f us [%.2f, %.2f]; accuracy %.2f %%'):format(before.med / 1e3,
  before.ci_lo / 1e3, before.ci_hi / 1e3, 100 * select(3, answers(net)).original.share),
  'grade ' .. before.grade)

local p = ridge.profile(function()
  for _ = 1, opt.smoke and 20 or 2000 do ridge.inference(net, one) end
end, { roof = 'none' })
local worst = p:bottlenecks()[1]
say('profile', worst and ('%s: %.0f %% of the time'):format(worst.what, 100 * worst.share)
  or 'no operation has a fifth of the time', worst and 'bottleneck' or 'none')

local graph = ridge.graph(ridge.inference, net, one):optimize 'aggressive'
local speed, gained = faster(graph:plan())
say('optimize', speed .. ('; %d nodes'):format(#graph:nodes()), gained)

local schedule = ridge.prune.Scheduler { target = opt.sparsity, steps = 3 }
local pruned, report = ridge.prune.iterative(net, { schedule = schedule, epochs = opt.tune,
  train = train, pattern = 'block', test = test, seed = opt.seed })
local compact = ridge.prune.compact(pruned, { rows = one:size(1) })
local control = report.controls[1]
compared('prune', compact, ridge.capture(ridge.inference, compact, one),
  ('; beside random pruning: %s'):format(control.verdict))

local dense = ridge.prune.compact(pruned, { format = 'dense' })
local q = ridge.quant.static(dense, { calibrate = calibrate, rows = false })
local bytes = ridge.quant.compare(net, q, { input = one, iterations = 1 }).bytes
compared('quantize', q, ridge.capture(ridge.inference, q, one), ('; %s of %s'):format(
  megabytes(bytes.quantized.mb * 2 ^ 20), megabytes(bytes.original.mb * 2 ^ 20)))

local path = opt.out ~= '' and opt.out or os.tmpname()
local exported = ridge.onnx.export(q, path, { x = one, dynamic = { input = { 'n' } } })
local whole = os.tmpname()
ridge.onnx.export(net, whole, { x = one, test = false })
say('export', ('%s of %s; off by %.2g of the largest result'):format(megabytes(size_of(path)),
  megabytes(size_of(whole)), exported.max_difference), not exported.inference_test_passed
  and 'FAILED' or size_of(path) < size_of(whole) and 'smaller' or 'nothing gained')

local loaded = ridge.onnx.load(path)
local plan = ridge.capture(ridge.inference, loaded, one)
compared('benchmark', loaded, plan)
os.remove(whole)
if opt.out == '' then os.remove(path) end
