-- SPDX-License-Identifier: MIT
--- What mixed precision brings on this machine: a training step in f32 beside the same step with
--- products in bf16 (weights, gradients and the optimizer stay in f32), in paired blocks, and what
--- both networks learn.
--
-- The documents behind ridge claim 20 to 40 % (000), 2 times (001), 2 to 3 times (003, 004).
--
-- machine: any; without AMX or AVX-512 BF16 nothing is gained, and that is what it says
-- time:    about a minute on two cores
-- result:  the ratio of the two steps with its interval and a verdict, for several widths, peak
--          memory of both, and the accuracy of both on digits made here
--
--     ./ridge recipes/amp.lua [--widths 256,1024] [--batch 256] [--device cuda:0] [--smoke]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'widths', { 256, 1024, 2048 }, 'of the two hidden layers', integer = true, min = 1 },
  { 'batch', 256, 'rows in a step', integer = true, min = 1 },
  { 'epochs', 3, 'of the training', integer = true, min = 1 },
  { 'device', 'cpu', "where it trains: 'cpu', 'cuda:0'" },
  { 'quick', false, 'fewer blocks' },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.widths, opt.batch, opt.epochs, opt.quick = { 32 }, 16, 1, true end

--- A network, and one training step of it.
local function make(width, dtype, x, y)
  local net = nn.Sequential(nn.Linear(784, width, { seed = 1, activation = 'relu' }),
    nn.Linear(width, width, { seed = 2, activation = 'relu' }), nn.Linear(width, 10, { seed = 3 }))
    :to(opt.device)
  local optimizer = ridge.optim.Adam(net:train(), { lr = 1e-3 })
  local function forward(input)
    if dtype == 'f32' then return net(input) end
    return ridge.autocast(dtype, net, input)
  end
  local function step()
    optimizer:zero_grad()
    local loss = nn.cross_entropy(forward(x), y)
    loss:backward()
    optimizer:step()
    return loss
  end
  return { net = net, optimizer = optimizer, forward = forward, step = step }
end

-- -- Time -------------------------------------------------------------------------------------

print(('batch %d, three layers, Adam; the whole step as a plan'):format(opt.batch))
local least, most, undecided = math.huge, 0, 0
for _, width in ipairs(opt.widths) do
  local there = { device = opt.device }
  local x, y = ridge.randn(opt.batch, 784, there), ridge.randint(0, 10, opt.batch, there)
  local sides = {}
  for _, dtype in ipairs { 'f32', 'bf16' } do
    local side = make(width, dtype, x, y)
    side.step()
    side.peak = ridge.memory.peak_of(side.step, opt.device)
    side.plan = ridge.capture(side.step)
    sides[dtype] = side
  end
  -- the results are not held against each other: bf16 rounds, and what both learn is shown below
  local found = ridge.measure.ab { a = sides.f32.plan, b = sides.bf16.plan, check = false,
    labels = { a = 'f32', b = 'bf16' }, protocol = opt.quick and 'quick' or 'demo' }
  if found.verdict == 'open' then
    undecided = undecided + 1
  else
    least, most = math.min(least, 1 / found.ratio), math.max(most, 1 / found.ratio)
  end
  print(('width %4d: f32 %.3f ms, bf16 %.3f ms: %s, %.2f times as fast [%.2f .. %.2f]; a step '
    .. 'takes %.1f and %.1f MB'):format(width, found.a_ns / 1e6, found.b_ns / 1e6,
    found.verdict == 'open' and 'undecided' or 'bf16 ' .. found.verdict, 1 / found.ratio,
    1 / found.ci_hi, 1 / found.ci_lo, sides.f32.peak / 2 ^ 20, sides.bf16.peak / 2 ^ 20))
end

print(('claimed: 20 to 40 %% faster (000), 2 times (001), 2 to 3 times (003, 004); measured: %s%s')
  :format(most > 0 and ('%.2f to %.2f times'):format(least, most) or 'nothing is decided',
  most > 0 and undecided > 0 and (', and undecided at %d of %d widths'):format(undecided,
    #opt.widths) or ''))

-- -- Learning -----------------------------------------------------------------------------------

local n_train, n_test = opt.smoke and 200 or 4000, opt.smoke and 50 or 1000
local images, labels = ridge.data.segments(n_train + n_test, { seed = 1 })
images = (images:to 'f32' / 255):reshape(n_train + n_test, 784)
local train = { images:narrow(1, 1, n_train), labels:narrow(1, 1, n_train) }
local test = { images:narrow(1, n_train + 1, n_test), labels:narrow(1, n_train + 1, n_test) }

for _, dtype in ipairs { 'f32', 'bf16' } do
  local side = make(opt.smoke and 32 or 256, dtype)
  local trainer = ridge.Trainer(side.net, { optimizer = side.optimizer, say = function() end,
    autocast = dtype ~= 'f32' and dtype or nil })
  local history = trainer:fit(ridge.data.Loader(train, { batch = 64, seed = 1 }), {
    epochs = opt.epochs, validate = ridge.data.Loader(test, { batch = math.min(250, n_test),
    shuffle = false }) })
  print(('%-4s learns: test accuracy %.4f after %d epochs'):format(dtype,
    history[#history].accuracy, #history))
end
