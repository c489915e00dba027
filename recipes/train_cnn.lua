-- SPDX-License-Identifier: MIT
--- A convolutional network of LeNet's size, trained on images of digits.
--
-- The images are those of a folder with MNIST's four IDX files, packed or not, or, where none is
-- named, digits of seven strokes that the recipe makes itself (easier than handwriting). With
-- --dtype bf16 products and convolutions compute in bf16 while the weights stay in f32 (autocast).
--
-- machine: any
-- time:    MNIST's 7,000 images: a second or two an epoch on two cores
-- result:  a line for each epoch, and at the end the share of test images it names rightly
--
--     ./ridge recipes/train_cnn.lua [--data DIR] [--epochs 15] [--dtype bf16] [--device cuda:0]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST' },
  { 'epochs', 15, 'times through the training images', integer = true, min = 1 },
  { 'batch', 64, 'images in a step', integer = true, min = 1 },
  { 'lr', 0.02, 'learning rate; falls to 0 as a cosine', min = 0 },
  { 'dtype', 'f32', 'compute products in', choices = { 'f32', 'bf16' } },
  { 'seed', 1, 'of weights and orders', integer = true, min = 0 },
  { 'device', 'cpu', "where it trains: 'cpu', 'cuda:0'" },
  { 'smoke', false, 'a few hundred images, to see that everything works' },
}

-- -- Images ---------------------------------------------------------------------------------

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  local function made(n, seed)
    local images, labels = ridge.data.segments(n, { seed = seed })
    return { images = images, labels = labels }
  end
  sets = { train = made(opt.smoke and 400 or 6000, 1), test = made(opt.smoke and 100 or 1000, 2) }
  print 'no --data given: digits of seven strokes, made here'
end

-- Mean 0 and standard deviation 1 over the training images; one channel.
local pixels = sets.train.images:to 'f32'
local mean = pixels:mean():item()
local deviation = (pixels - mean):square():mean():sqrt():item()
local function inputs(images)
  local n, rows, columns = images:size(1), images:size(2), images:size(3)
  return ((images:to 'f32' - mean) / deviation):reshape(n, 1, rows, columns)
end
local train = { x = inputs(sets.train.images), y = sets.train.labels }
local test = { x = inputs(sets.test.images), y = sets.test.labels }
local n_train, n_test = train.x:size(1), test.x:size(1)

-- -- Network --------------------------------------------------------------------------------

local seed = opt.seed
local function next_seed()
  seed = seed + 1
  return { seed = seed }
end
local function conv(c_in, c_out, padding)
  return nn.Conv2d(c_in, c_out, 5,
    { padding = padding, activation = 'relu', seed = next_seed().seed })
end
local function linear(n_in, n_out, activation)
  return nn.Linear(n_in, n_out, { activation = activation, seed = next_seed().seed })
end

-- Two halvings, and the second convolution takes two pixels off each side.
local side = math.floor((math.floor(train.x:size(3) / 2) - 4) / 2)
local other = math.floor((math.floor(train.x:size(4) / 2) - 4) / 2)
local net = nn.Sequential(conv(1, 6, 2), nn.MaxPool2d(2), conv(6, 16, 0), nn.MaxPool2d(2),
  nn.Flatten(), linear(16 * side * other, 120, 'relu'), linear(120, 84, 'relu'), linear(84, 10))
  :to(opt.device)

local function scores(x)
  if opt.dtype == 'f32' then return net(x) end
  return ridge.autocast(opt.dtype, net, x)
end

--- The share of test images whose largest score is at their label.
local function accuracy()
  net:eval()
  local right = ridge.zeros({ device = opt.device })
  local rest = ridge.data.Loader({ test.x, test.y }, { batch = math.min(500, n_test),
    shuffle = false })
  for x, y in rest:each() do
    x, y = x:to(opt.device), y:to(opt.device)
    ridge.no_grad(function() right:add_(scores(x):argmax(2):eq(y):to('f32'):sum()) end)
  end
  return right:item() / n_test
end

-- -- Training -------------------------------------------------------------------------------

local loader = ridge.data.Loader({ train.x, train.y }, { batch = opt.batch, seed = opt.seed })
local optimizer = ridge.optim.SGD(net, { lr = opt.lr, momentum = 0.9 })
local steps, total = 0, opt.epochs * loader:len()

-- The loss stays on the device: reading it would wait at each step.
local function step(x, y)
  x, y = x:to(opt.device), y:to(opt.device)
  optimizer:lr(opt.lr * 0.5 * (1 + math.cos(math.pi * steps / total)))
  optimizer:zero_grad()
  local loss = nn.cross_entropy(scores(x), y)
  loss:backward()
  optimizer:step()
  steps = steps + 1
  return loss:detach()
end

print(('%d training and %d test images, %d parameters, %s'):format(n_train, n_test,
  net:num_parameters(), opt.dtype))
for epoch = 1, opt.epochs do
  net:train()
  local sum, began = ridge.zeros({ device = opt.device }), ridge.clock()
  for x, y in loader:each() do
    ridge.scope(function() sum:add_(step(x, y) * x:size(1)) end)
    if ridge.stopping() then os.exit(130) end
  end
  local loss = sum:item() / n_train -- the last batch may have fewer rows
  local seconds = ridge.clock() - began
  print(('epoch %2d  loss %.4f  test %.4f  %.1f s, %.0f images/s'):format(epoch,
    loss, accuracy(), seconds, n_train / seconds))
end
print(('test accuracy %.4f'):format(accuracy()))
