-- SPDX-License-Identifier: MIT
--- A network that knows digits, with data to choose on, to report on and to calibrate with: what
--- `ridge smaller digits` looks for a smaller one of.
--
-- The images are parted: the network is trained and tuned on the first part of the training images,
-- versions are chosen on the rest of them, and what was chosen is reported on the test images.
--
-- machine: any
-- time:    a few seconds on two cores, without what `ridge smaller` does then
-- result:  returns the network, its data, and how it is trained
--
--     ./ridge smaller recipes/digits.lua --max-drop 0.5% --budget 10m -- --data DIR [--net mlp]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST; digits made here when left out' },
  { 'net', 'mlp', 'what is trained', choices = { 'mlp', 'cnn' } },
  { 'epochs', 6, 'of training', integer = true, min = 1 },
  { 'tune', 2, 'epochs behind each step of pruning', integer = true, min = 1 },
  { 'validate', 1500, 'training images that are chosen on', integer = true, min = 1 },
  { 'seed', 1, 'of weights and batches', integer = true, min = 0 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.epochs, opt.tune, opt.validate = 1, 1, 100 end

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  local n, n_test = opt.smoke and 300 or 6500, opt.smoke and 100 or 1500
  local images, labels = ridge.data.segments(n + n_test, { seed = 1, noise = 60 })
  sets = { train = { images = images:narrow(1, 1, n), labels = labels:narrow(1, 1, n) },
    test = { images = images:narrow(1, n + 1, n_test), labels = labels:narrow(1, n + 1, n_test) } }
  print 'no --data given: digits of seven strokes, made here'
end

local shape = opt.net == 'cnn' and { 1, 28, 28 } or { 784 }
local function rows(set, first, n)
  return (set.images:narrow(1, first, n):to 'f32' / 255):reshape(n, unpack(shape)),
    set.labels:narrow(1, first, n):contiguous()
end
local all = sets.train.images:size(1)
local n = all - math.min(opt.validate, math.floor(all / 2))
local x, y = rows(sets.train, 1, n)

local function loader(batch, a, b)
  return ridge.data.Loader({ a, b }, { batch = math.min(batch, a:size(1)), shuffle = false })
end

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
      if ridge.stopping() then return end -- whoever asked for it looks at that too
    end
  end
end

local s = 100 * opt.seed
local net = opt.net == 'mlp' and nn.Sequential(nn.Linear(784, 128, { seed = s }), nn.ReLU(),
  nn.Linear(128, 10, { seed = s + 1 })) or nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1,
  seed = s }), nn.BatchNorm(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, { padding = 1,
  seed = s + 1 }), nn.BatchNorm(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
  nn.Linear(1568, 64, { seed = s + 2 }), nn.ReLU(), nn.Linear(64, 10, { seed = s + 3 }))
train(net, opt.epochs)
if ridge.stopping() then os.exit(130) end

return { net = net:eval(), validate = loader(250, rows(sets.train, n + 1, all - n)),
  test = loader(250, rows(sets.test, 1, sets.test.images:size(1))),
  calibrate = loader(100, x:narrow(1, 1, math.min(500, n))), train = train, epochs = opt.tune,
  trained = opt.epochs }
