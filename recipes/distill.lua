-- SPDX-License-Identifier: MIT
--- What a small network gains from a large one: a student trained by the labels alone, beside the
--- same student trained by the labels and by what a teacher says (softened by a temperature).
--
-- Both students begin with the same weights and see the same batches; there are few labelled
-- images, which is where a teacher could help.  Several seeds, because one run says nothing:
-- document 004 shows distillation with a loss that is always 0.
--
-- machine: any
-- time:    a few seconds on two cores
-- result:  test accuracy of the teacher and, for each seed, of both students; the mean difference
--          with its 95 % interval over the seeds
--
--     ./ridge recipes/distill.lua [--data DIR] [--temperature 4] [--alpha 0.7] [--seeds 8]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST' },
  { 'temperature', 4, 'softens teacher and student', min = 0.01 },
  { 'alpha', 0.7, 'share of the teacher in the loss', min = 0, max = 1 },
  { 'images', 500, 'that the students see', integer = true, min = 10 },
  { 'epochs', 30, 'of the students', integer = true, min = 1 },
  { 'width', 12, 'of the students', integer = true, min = 1 },
  { 'seeds', 8, 'students of each kind', integer = true, min = 2 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then opt.images, opt.epochs, opt.seeds = 60, 2, 2 end

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  local n = opt.smoke and 300 or 4000
  local images, labels = ridge.data.segments(n + 1000, { seed = 1, noise = 60 })
  sets = { train = { images = images:narrow(1, 1, n), labels = labels:narrow(1, 1, n) },
    test = { images = images:narrow(1, n + 1, 1000), labels = labels:narrow(1, n + 1, 1000) } }
  print 'no --data given: digits of seven strokes, made here'
end
local function rows(set)
  local n = set.images:size(1)
  return (set.images:to 'f32' / 255):reshape(n, 784), set.labels:contiguous()
end
local x, y = rows(sets.train)
local test_x, test_y = rows(sets.test)
if opt.images > x:size(1) then
  error(('--images %d: there are %d to train on'):format(opt.images, x:size(1)), 0)
end
local function accuracy(net)
  net:eval()
  return ridge.no_grad(function()
    return net(test_x):argmax(2):eq(test_y):to('f32'):mean():item()
  end)
end

local function by_labels(output, labels) return nn.cross_entropy(output, labels) end

local function train(net, inputs, labels, epochs, seed, loss)
  local optimizer = ridge.optim.Adam(net:train(), { lr = 2e-3 })
  local loader = ridge.data.Loader({ inputs, labels }, { batch = 50, seed = seed })
  for _ = 1, epochs do
    for a, b in loader:each() do
      ridge.scope(function()
        optimizer:zero_grad()
        loss(net(a), b, a):backward()
        optimizer:step()
      end)
      if ridge.stopping() then os.exit(130) end
    end
  end
  return accuracy(net)
end

-- -- Teacher ----------------------------------------------------------------------------------

local teacher = nn.Sequential(nn.Linear(784, 256, { seed = 1, activation = 'relu' }),
  nn.Dropout(0.2), nn.Linear(256, 128, { seed = 2, activation = 'relu' }),
  nn.Linear(128, 10, { seed = 3 }))
ridge.seed(1)
local found = train(teacher, x, y, opt.smoke and 2 or 8, 1, by_labels)
print(('teacher: %d parameters, %d images, test accuracy %.4f'):format(teacher:num_parameters(),
  x:size(1), found))

-- -- Students ---------------------------------------------------------------------------------

local few_x, few_y = x:narrow(1, 1, opt.images), y:narrow(1, 1, opt.images)
local function student(seed)
  return nn.Sequential(nn.Linear(784, opt.width, { seed = 10 * seed, activation = 'relu' }),
    nn.Linear(opt.width, 10, { seed = 10 * seed + 1 }))
end
local function by_teacher(output, labels, inputs)
  local said = ridge.no_grad(teacher, inputs)
  return nn.distillation_loss(output, said, labels, { temperature = opt.temperature,
    alpha = opt.alpha })
end

teacher:eval()
print(('students: %d parameters, %d images, temperature %g, alpha %g'):format(
  student(1):num_parameters(), opt.images, opt.temperature, opt.alpha))
local differences = {}
for seed = 1, opt.seeds do
  local alone = train(student(seed), few_x, few_y, opt.epochs, seed, by_labels)
  local taught = train(student(seed), few_x, few_y, opt.epochs, seed, by_teacher)
  print(('seed %2d: labels alone %.4f, with the teacher %.4f, difference %+.4f'):format(seed, alone,
    taught, taught - alone))
  differences[seed] = taught - alone
end
local mean = require('ridge.measure.statistics').mean(differences)
local low, high = require('ridge.measure.interval').student(differences, 0.95)
print(('the teacher makes %+.4f of test accuracy [%+.4f .. %+.4f]: %s'):format(mean, low, high,
  low > 0 and 'better' or high < 0 and 'worse' or 'not told from nothing with so few seeds'))
