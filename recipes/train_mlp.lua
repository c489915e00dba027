-- SPDX-License-Identifier: MIT
--- Three linear layers learn digits with the trainer: validation, a schedule, checkpoints, and
--- going on where a break was. Run it again with --folder and more epochs, and it goes on.
--
-- machine: any
-- time:    MNIST's 7,000 images: less than half a second an epoch on two cores
-- result:  a line for each epoch, and the accuracy on test images of the best one
--
--     ./ridge recipes/train_mlp.lua [--data DIR] [--epochs 10] [--folder results/mlp]
--       [--device cuda:0]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST; digits made here when left out' },
  { 'epochs', 10, 'in all, those before a break included', integer = true, min = 1 },
  { 'batch', 64, 'rows in a step', integer = true, min = 1 },
  { 'accumulate', 1, 'batches whose gradients make one step', integer = true, min = 1 },
  { 'lr', 1e-3, 'learning rate, behind a warm-up, falling as a cosine', min = 0 },
  { 'patience', 0, 'epochs without a better loss before it stops; 0: never', integer = true,
    min = 0 },
  { 'folder', '', 'for checkpoints; none when left out' },
  { 'device', 'cpu', "where it trains: 'cpu', 'cuda:0'" },
  { 'smoke', false, 'a few hundred images, to see that everything works' },
}

-- -- Images -----------------------------------------------------------------------------------

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  sets = {}
  for name, n in pairs { train = opt.smoke and 300 or 5000, test = opt.smoke and 100 or 1000 } do
    local images, labels = ridge.data.segments(n, { seed = name == 'train' and 1 or 2 })
    sets[name] = { images = images, labels = labels }
  end
  print 'no --data given: digits of seven strokes, made here'
end

local function loader(set, batch, shuffle)
  local n, rows, columns = set.images:size(1), set.images:size(2), set.images:size(3)
  local x = (set.images:to 'f32' / 255):reshape(n, rows * columns)
  return ridge.data.Loader({ x, set.labels }, { batch = math.min(batch, n), shuffle = shuffle,
    seed = 1 }),
    rows * columns
end

local train, inputs = loader(sets.train, opt.batch, true)
local test = loader(sets.test, 500, false)

-- -- Training ---------------------------------------------------------------------------------

ridge.seed(1) -- of dropout
local net = nn.Sequential(nn.Linear(inputs, 256, { seed = 1, activation = 'relu' }),
  nn.Linear(256, 128, { seed = 2, activation = 'relu' }), nn.Dropout(0.1),
  nn.Linear(128, 10, { seed = 3 })):to(opt.device)
local optimizer = ridge.optim.AdamW(net, { lr = opt.lr })
local steps = opt.epochs * math.ceil(train:len() / opt.accumulate)
local folder = opt.folder ~= '' and opt.folder or nil
local trainer = ridge.Trainer(net, { optimizer = optimizer, accumulate = opt.accumulate, clip = 1,
  schedule = ridge.optim.CosineLR(optimizer, { steps = steps, warmup = math.floor(steps / 20) }),
  folder = folder, patience = opt.patience > 0 and opt.patience or nil })
if folder and trainer:resume(train) then
  print(('going on after epoch %d'):format(trainer.epoch))
end

local history, stopped = trainer:fit(train, { epochs = opt.epochs, validate = test })
if stopped then print('stopped: ' .. stopped) end
local best = history[1]
for _, row in ipairs(history) do
  if row.val_loss < best.val_loss then best = row end
end
print(('test accuracy %.4f (epoch %d)'):format(best.accuracy, best.epoch))
