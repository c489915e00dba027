-- SPDX-License-Identifier: MIT
--- The same 200 steps as curve.py: a LeNet on the images of MNIST in their order, with momentum. It
--- writes the weights it began with (f32, one parameter after the other) and the loss of each step.
--
--     ./ridge scripts/peers/curve.lua --data DIR --out OUT
--     python3 scripts/peers/curve.py DIR OUT

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST' },
  { 'out', '.', 'folder for weights.bin and losses.txt' },
  { 'steps', 200, 'how many', integer = true },
}

local sets = ridge.data.mnist(opt.data)
local x = (sets.train.images:to 'f32' / 255):reshape(sets.train.images:size(1), 1, 28, 28)
local net = nn.Sequential(
  nn.Conv2d(1, 6, 5, { padding = 2, seed = 1 }), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(6, 16, 5, { seed = 2 }), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
  nn.Linear(400, 120, { seed = 3 }), nn.ReLU(), nn.Linear(120, 84, { seed = 4 }), nn.ReLU(),
  nn.Linear(84, 10, { seed = 5 })):train()

local file = assert(io.open(opt.out .. '/weights.bin', 'wb'))
for _, p in ipairs(net:parameters()) do
  local bytes = tonumber(p.tensor.bytes)
  local buffer = ffi.new('uint8_t[?]', bytes)
  assert(C.rg_tensor_read(p.tensor._t, buffer, bytes) == 0)
  file:write(ffi.string(buffer, bytes))
end
file:close()

local optimizer = ridge.optim.SGD(net, { lr = 1e-2, momentum = 0.9 })
local loader = ridge.data.Loader({ x, sets.train.labels }, { batch = 64, shuffle = false,
  drop_last = true })
file = assert(io.open(opt.out .. '/losses.txt', 'w'))
local next_batch, steps = loader:each(), 0
while steps < opt.steps do
  local images, labels = next_batch()
  if not images then
    next_batch = loader:each()
    images, labels = next_batch()
  end
  optimizer:zero_grad()
  local loss = nn.cross_entropy(net(images), labels)
  loss:backward()
  optimizer:step()
  steps = steps + 1
  file:write(('%.9g\n'):format(loss:item()))
end
file:close()
