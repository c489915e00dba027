-- SPDX-License-Identifier: MIT
--- One picture of every kind, from sweeps that this recipe measures itself.
--
-- Small sweeps of linear layers, each for the picture that it can show: a grid over batch and
-- width, sizes in steps of one, threads, sketches by time and error, a comparison in paired blocks,
-- the same few points measured several times, and the calls of one training step.  Running it
-- again goes on where it was.
--
-- machine: any; the pictures say which
-- time:    about two and a half minutes on two cores
-- result:  results/gallery.db, and a PNG of each kind in the folder `out`
--
--     ./ridge recipes/gallery.lua [--quick] [--theme dark] [--out results/kept/gallery]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'db', 'results/gallery.db', 'database file' },
  { 'out', 'results/gallery', 'folder of the pictures' },
  { 'theme', 'light', 'look', choices = { 'light', 'dark' } },
  { 'scale', 1, 'pixels a unit: 1, or 2 for fine screens', min = 0.5, max = 4 },
  { 'runs', 3, 'how often the points of the history are measured', integer = true, min = 2 },
  { 'new', false, 'start new sweeps instead of going on' },
  { 'quick', false, 'toy grids in seconds, to see that everything works' },
}
require('ridge.store.place').make_folder(opt.out)

local RUN = { db = opt.db, new = opt.new, calibrate = not opt.quick }
local level = opt.quick and 'quick' or 'demo'

-- -- Sweeps ---------------------------------------------------------------------------------

-- A linear layer over a batch; cost as 2 * batch * n_in * n_out operations, each array read once.
local function setup(p)
  local n_in, n_out = p.width or 512, p.n_out or p.width or 512
  if p.threads then ridge.set_num_threads(p.threads) end
  local layer = nn.Linear(n_in, n_out, { seed = 1 }):to(p.dtype or 'f32')
  local x = ridge.randn(p.batch or 64, n_in):to(p.dtype or 'f32')
  local c = { plan = ridge.capture(ridge.inference, layer, x), layer = layer, x = x,
    flops = 2 * (p.batch or 64) * n_in * n_out,
    bytes = ((p.batch or 64) * (n_in + n_out) + n_in * n_out) * (p.dtype == 'bf16' and 2 or 4) }
  if p.threads then ridge.set_num_threads(0) end
  return c
end

local function measure(p, c, m)
  m:time('fwd', c.plan)
  m:cost('fwd', { flops = c.flops, bytes = c.bytes, dtype = p.dtype or 'f32' })
end

local layers = ridge.sweep 'gallery-layers' {
  space = { batch = opt.quick and { 1, 8 } or ridge.geom(1, 256, 4),
    width = opt.quick and { 32, 64, 128 } or ridge.geom(64, 2048), dtype = { 'f32', 'bf16' } },
  protocol = level, setup = setup, measure = measure,
}
layers:run(RUN)

local steps = ridge.sweep 'gallery-steps' {
  space = { n_out = opt.quick and ridge.range(60, 66) or ridge.range(160, 292) },
  protocol = 'quick', setup = setup, measure = measure,
}
steps:run(RUN)

local threads, most = { 1 }, ridge.num_threads()
while threads[#threads] < most do
  threads[#threads + 1] = math.min(most, threads[#threads] * 2)
end
local scaling = ridge.sweep 'gallery-threads' {
  space = { threads = threads, width = opt.quick and { 256 } or { 512, 1024, 2048 } },
  protocol = level, setup = setup, measure = measure,
}
scaling:run(RUN)

local W = nn.Linear(512, 512, { bias = false, seed = 1 })
local sketches = ridge.sweep 'gallery-sketches' {
  space = { terms = opt.quick and { 1, 2 } or { 1, 2, 4, 8 },
    rank = opt.quick and { 8, 16 } or { 8, 16, 32, 64, 128 } },
  protocol = level,
  setup = function(p)
    local x = ridge.randn(64, 512)
    local layer = nn.SKLinear.from(W, { num_terms = p.terms, low_rank = p.rank, seed = 2,
      warn = false })
    return { layer = layer, plan = ridge.capture(ridge.inference, layer, x) }
  end,
  measure = function(_, c, m)
    m:time('fwd', c.plan)
    local wanted = W:effective_weight()
    m:metric('rel_error', ((c.layer:effective_weight() - wanted):norm() / wanted:norm()):item(),
      { better = 'lower' })
  end,
}
sketches:run(RUN)

local history
for run = 1, opt.runs do
  history = ridge.sweep 'gallery-history' {
    space = { width = opt.quick and { 64 } or { 256, 512, 1024 } },
    args = { run = run }, protocol = level, setup = setup, measure = measure,
  }
  history:run { db = opt.db, calibrate = not opt.quick, new = opt.new or run > 1 }
end

-- What a network learns in the same few seconds, by its width and its element type.
local training = ridge.sweep 'gallery-training' {
  space = { width = opt.quick and { 8, 16 } or { 16, 64, 256 }, dtype = { 'f32', 'bf16' } },
  protocol = level,
  measure = function(p, _, m)
    local images, labels = ridge.data.segments(opt.quick and 200 or 3000, { seed = 1, noise = 60 })
    local n = images:size(1)
    local x = (images:to 'f32' / 255):reshape(n, 784)
    local net = nn.Sequential(nn.Linear(784, p.width, { seed = 1, activation = 'relu' }),
      nn.Linear(p.width, 10, { seed = 2 }))
    local trainer = ridge.Trainer(net, { optimizer = ridge.optim.Adam(net), say = function() end,
      autocast = p.dtype ~= 'f32' and p.dtype or nil })
    trainer:fit(ridge.data.Loader({ x, labels }, { batch = 50, seed = 1 }), {
      epochs = opt.quick and 2 or 8 })
    m:curve('loss', trainer.curve)
  end,
}
training:run(RUN)

-- -- Pictures -------------------------------------------------------------------------------

local function save(name, figure)
  local path = ('%s/%s.png'):format(opt.out, name)
  figure:save(path, { theme = opt.theme, scale = opt.scale })
  print(path)
end

save('map', layers:plot('map', { x = 'width', y = 'batch', z = 'fwd_gflops' }))
if not opt.quick then
  save('efficiency', layers:plot('efficiency', { x = 'width', y = 'batch', z = 'fwd' }))
end
save('ratio', layers:plot('ratio', { x = 'width', y = 'batch', z = 'fwd', a = 'dtype=f32',
  b = 'dtype=bf16' }))
save('winner', layers:plot('winner', { x = 'width', y = 'batch', z = 'fwd', of = 'dtype' }))
save('uncertainty', layers:plot('uncertainty', { x = 'width', y = 'batch', z = 'fwd' }))
save('slices', layers:plot('slices', { x = 'width', y = 'fwd', by = 'batch', facet = 'dtype' }))
save('steps', steps:plot('steps', { x = 'n_out', y = 'fwd_gflops' }))
save('effects', layers:plot('effects', { y = 'fwd' }))
save('roofline', layers:plot('roofline', { y = 'fwd', by = 'dtype' }))
save('pareto', sketches:plot('pareto', { x = 'fwd', y = 'rel_error', label = 'terms,rank' }))
save('samples', layers:plot('samples', { y = 'fwd' }))
save('distribution', layers:plot('distribution', { y = 'fwd' }))
save('threads', scaling:plot('threads', { y = 'fwd', by = 'width' }))
save('training', training:plot('training', { y = 'loss' }))
save('history', history:plot('history', { y = 'fwd', by = 'width' }))

-- The comparison is timed again, in fresh processes, each time.
layers:ab { a = { dtype = 'f32', batch = opt.quick and 8 or 64 },
  b = { dtype = 'bf16', batch = opt.quick and 8 or 64 }, match = { 'width' }, db = opt.db,
  processes = opt.quick and 1 or nil, blocks = opt.quick and 8 or nil,
  looks = opt.quick and 1 or nil }
save('forest', layers:plot('forest'))

-- One step of a training, call by call: of no sweep, and no measurement.
local net = nn.Sequential(nn.Linear(784, 256, { seed = 1, activation = 'gelu' }),
  nn.Linear(256, 10, { seed = 2 }))
local images, labels = ridge.randn(256, 784), ridge.randint(0, 10, { 256 })
local optimizer = ridge.optim.Adam(net)
local function step()
  optimizer:zero_grad()
  nn.cross_entropy(net(images), labels):backward()
  optimizer:step()
end
step()
save('timeline', ridge.timeline(step):plot())

-- Steps of which every tenth has gradients that are nan: clipped, or left out.
do
  local digits, marks = ridge.data.segments(200, { seed = 1, noise = 60 })
  local pixels = (digits:to 'f32' / 255):reshape(digits:size(1), 784)
  local layer, batches = nn.Linear(784, 10, { seed = 1 }), 0
  local watched = ridge.Trainer(layer, { optimizer = ridge.optim.SGD(layer, { lr = 0.1 }),
    stability = { clip = { max_norm = 0.5 }, guard = { kind = 'skip' }, loss_checking = false },
    say = function() end, loss = function(output, target)
      batches = batches + 1
      return nn.cross_entropy(output, target) * (batches % 10 == 0 and 0 / 0 or 1)
    end })
  watched:fit(ridge.data.Loader({ pixels, marks }, { batch = 10, seed = 1 }), { epochs = 5 })
  save('stability', watched.stability:plot())
end

-- States of the machine and what fresh processes differ by: of no sweep, half a minute.
do
  local trust = require 'ridge.measure.trust'
  local record = trust.measure { minutes = opt.quick and 0.001 or 0.5,
    least = opt.quick and 5 or nil, window_ns = opt.quick and 2e5 or nil }
  save('trust', require('ridge.plot').draw('trust', trust.points(record), {
    text = trust.sentence(trust.summary(record)) }))
end
