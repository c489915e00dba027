-- SPDX-License-Identifier: MIT
--
-- More calls that are refused: of objects that are used in the wrong order, and of files, stores,
-- logs and lists whose parts do not fit. Each has a name and a function of a folder of its own.

local ridge = require 'ridge'
local nn, data, prune, quant = ridge.nn, ridge.data, ridge.prune, ridge.quant
local sqlite = require 'ridge.store.sqlite'

local LIST = {}
local function call(name, f) LIST[#LIST + 1] = { name, f } end
local function x(...) return ridge.zeros(...) end
local function model()
  return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)):eval()
end
local function write(path, text)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
  return path
end

-- -- Text and streams ----------------------------------------------------------------------------

for name, case in pairs { missing = { 'a,b\n1,\n', { missing = { '' }, dtype = 'i32' } },
    ['a byte 0'] = { 'a,b\n1,\0\n' }, ['a missing number'] = { '1,2\n', { missing = { 9 } } },
    ['like of zork'] = { '1,2\n', { like = { zork = 1 } } },
    ['ragged'] = { '1,2\n1\n' }, ['empty'] = { '' }, ['a text'] = { '1,2\n1,b\n' },
    ['fill of zork'] = { '1,2\n', { fill = 'zork' } },
    ['a fill of 1e99'] = { '1,\n', { fill = 1e99, dtype = 'i32' } },
    ['a mean that is none'] = { '1,1\n,2\n2,3\n', { fill = 'mean', dtype = 'i32' } },
    ['nothing to fill from'] = { ',1\n,2\n', { fill = 'mean' } } } do
  call('csv with ' .. name, function(folder)
    return data.csv(write(folder .. '/a.csv', case[1]), case[2])
  end)
end
call('csv like another', function(folder)
  local path = write(folder .. '/a.csv', 'a,b\n1,x\n2,y\n')
  local _, _, like = data.csv(path, { categories = { 'b' } })
  return data.csv(path, { like = like, categories = { 'a' } })
end)
call('npy of bf16', function(folder) return ridge.save(folder .. '/a.npy', x(3):to 'bf16') end)
call('load lazily of npy', function(folder)
  ridge.save(folder .. '/a.npy', x(3))
  return ridge.load(folder .. '/a.npy', { lazy = true })
end)
call('load over nothing', function(folder)
  ridge.save(folder .. '/a.safetensors', { a = x(3) })
  return ridge.load(folder .. '/a.safetensors', { over = { 'a' } })
end)
for name, given in pairs { separator = { separator = '1' }, ['long separator'] = {
    separator = ';;' }, again = { again = 1 } } do
  call('stream with ' .. name, function() return data.stream(function() end, given) end)
end
call('loader of prepared text', function()
  return data.Loader({ x(4, 2), x(4) }, { prepared = { 1 } })
end)

-- -- Plans, profiles, memory ---------------------------------------------------------------------

local STEPS = { active = 1, lines = false, roof = 'none' }
call('profile:start of 1', function()
  return ridge.profile(function(p) p:start(1) end, STEPS)
end)
call('profile:stop of another', function()
  return ridge.profile(function(p)
    p:start 'a'
    p:start 'b'
    p:stop 'a'
  end, STEPS)
end)
call('profile:stop elsewhere', function()
  return ridge.profile(function(p)
    p:start 'a'
    local ok, err = coroutine.resume(coroutine.create(function() p:stop 'a' end))
    if not ok then error(err, 0) end
  end, STEPS)
end)
call('profile:step behind it', function()
  local kept
  ridge.profile(function(p) kept = p end, STEPS)
  return kept:step()
end)
call('profile:text inside it', function()
  return ridge.profile(function(p) return p:text() end, STEPS)
end)
call('profile:plot of nothing', function() return ridge.profile(function() end):plot() end)
call('graph.parse without outputs', function() return ridge.graph.parse '{}' end)
call('graph at of a text', function()
  local g = ridge.graph(function(a) return a + 1 end, x(3))
  return ridge.graph.parse(tostring(g)):at(3)
end)
call('advise inside a capture', function()
  return ridge.capture(function()
    ridge.advise(model(), x(1, 4))
    return x(1) + 1
  end)
end)
call('memory.unwind of text', function() return require 'ridge.memory'.unwind 'a' end)

-- -- Modules and parameters ----------------------------------------------------------------------

local function parametrised(given)
  local net = nn.Linear(2, 2)
  given.forward = function(w) return w * 1 end
  return net:parametrize('weight', given)
end
for name, given in pairs { ['buffers 1'] = { buffers = 1 }, ['buffers of numbers'] = {
    buffers = { 1 } }, ['a buffer 1'] = { buffers = { mask = 1 } }, ['original 1'] = {
    right_inverse = function() return 1 end } } do
  call('parametrize with ' .. name, function() return parametrised(given) end)
end
call('Sequential of a number behind', function() return nn.Sequential(nn.ReLU()):add(1) end)
call('a parent in its child', function()
  local a = nn.Sequential()
  local b = nn.Sequential(a)
  a:add(b)
end)

-- -- Compression ---------------------------------------------------------------------------------

local function loader(n, classes)
  return data.Loader({ ridge.randn(n or 8, 4), ridge.zeros(n or 8, { dtype = 'i64' })
    + (classes or 0) }, { batch = 4 })
end
call('shrink of all', function() return prune.shrink(model(), x(1, 4), { share = 0.999 }) end)
call('shrink by importance of another net', function()
  local by = prune.importance(nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2)):eval())
  return prune.shrink(model(), x(1, 4), { share = 0.5, importance = by })
end)
call('magnitude of every skip', function()
  return prune.magnitude(model(), { sparsity = 0.5, skip = { '1', '3' } })
end)
call('magnitude of a whole row', function()
  return prune.magnitude(model(), { sparsity = 0.9, pattern = 'row' })
end)
call('iterative of 2:4', function()
  return prune.iterative(model(), { train = function() end, pattern = '2:4',
    schedule = prune.Scheduler { target = 0.5, steps = 3 } })
end)
call('iterative by schedule of a table', function()
  return prune.iterative(model(), { train = function() end, schedule = {} })
end)
call('a sparse layer in training', function()
  local net = nn.Sequential(nn.Linear(64, 64)):eval()
  prune.magnitude(net, { sparsity = 0.9 })
  return prune.compact(net):train()
end)
call('quant.compare of labels of another size', function()
  return quant.compare(model(), quant.dynamic(model()), { test = loader(8, 7) })
end)

-- -- What is kept --------------------------------------------------------------------------------

local function open(folder, how) return sqlite.open(folder .. '/a.db', how or 'write') end
call('sqlite behind close', function(folder)
  local db = open(folder)
  db:close()
  return db:value 'SELECT 1'
end)
for _, sql in ipairs { '', 'SELECT 1', 'SELECT ?', 'SELECT ?, ?', 'zork' } do
  call('sqlite of ' .. sql, function(folder) return open(folder):value(sql, 1) end)
end
call('sqlite of a table', function(folder) return open(folder):value('SELECT ?', {}) end)
call('sqlite of brackets', function(folder)
  return open(folder):value('SELECT ' .. ('('):rep(3000) .. '1' .. (')'):rep(3000))
end)
for name, text in pairs { text = ('no database '):rep(99), empty = '' } do
  call('store of ' .. name, function(folder)
    local st = require('ridge.store').open(write(folder .. '/b.db', text), 'read')
    st:close()
  end)
end
call('store of another program', function(folder)
  local db = open(folder)
  db:exec 'CREATE TABLE t(a); PRAGMA application_id = 77'
  db:close()
  return require('ridge.store').open(folder .. '/a.db', 'write')
end)
for _, version in ipairs { 1, 9999 } do
  call('store of version ' .. version, function(folder)
    require('ridge.store').open(folder .. '/a.db', 'write'):close()
    local db = open(folder)
    db:exec('PRAGMA user_version = ' .. version)
    db:close()
    return require('ridge.store').open(folder .. '/a.db', 'write')
  end)
end
call('a sweep called point', function(folder)
  return ridge.sweep 'trial' { space = { k = { 1 } }, measure = function() end }
    :run { db = folder .. '/a.db', progress = false, calibrate = false }
end)
call('a sweep that registers nothing', function(folder)
  local sw = ridge.sweep 's' { space = { k = { 1 } }, measure = function() end }
  sw:run { db = folder .. '/a.db', progress = false, calibrate = false }
  error({ code = 'said', message = sw:results()[1].reason })
end)

-- -- Logs ----------------------------------------------------------------------------------------

local function writer(folder) return ridge.tensorboard(folder .. '/runs') end
for name, f in pairs {
  ['a tag of 1'] = function(w) return w:scalar(1, 2, 3) end,
  ['a value of text'] = function(w) return w:scalar('a', 'b', 3) end,
  ['a step of 1.5'] = function(w) return w:scalar('a', 1, 1.5) end,
  ['a time of text'] = function(w) return w:scalar('a', 1, 1, 'b') end,
  ['a histogram of text'] = function(w) return w:histogram('a', 'b', 1) end,
  ['a histogram of texts'] = function(w) return w:histogram('a', { 1, 'b' }, 1) end,
  ['an image of 1'] = function(w) return w:image('a', 1, 1) end,
  ['an image of no file'] = function(w) return w:image('a', '/nowhere.png', 1) end,
  ['hparams of 1'] = function(w) return w:hparams(1) end,
  ['hparams of a table'] = function(w) return w:hparams { a = {} } end,
  ['an experiment of 1'] = function(w) return w:experiment(1) end,
  ['an experiment of values'] = function(w) return w:experiment({ a = 1 }, { 'b' }) end,
  ['an experiment of tags'] = function(w) return w:experiment({ a = { 1 } }, { 1 }) end,
  ['a closed one'] = function(w)
    w:close()
    return w:scalar('a', 1, 1)
  end,
} do
  call('tensorboard with ' .. name, function(folder) return f(writer(folder)) end)
end
call('monitor of step 1.5', function() return ridge.monitor():record({ a = 1 }, 1.5) end)
call('monitor of step text', function() return ridge.monitor():record({ a = 1 }, 'a') end)
call('trainer with monitor 1', function()
  return ridge.Trainer(model(), { monitor = {} })
end)

-- -- Pictures ------------------------------------------------------------------------------------

local plot = require 'ridge.plot'
local function figure()
  return plot.draw('trust', { { kind = 'windows', ratio = 1, at_s = 1 } }, {})
end
call('a figure of 10 x 10', function(folder)
  return figure():save(folder .. '/a.png', { size = { 10, 10 } })
end)
call('a figure of no picture', function(folder)
  return plot.replot(write(folder .. '/a.png', 'x'))
end)
call('a figure of another kind', function(folder)
  local png = require 'ridge.plot.png'
  local path = folder .. '/a.png'
  figure():save(path, { scale = 1 })
  local text = assert(io.open(path, 'rb')):read '*a'
  assert(png.read_texts(path)['ridge:figure'] == 'trust')
  return plot.replot(write(path, text:sub(1, 60)))
end)

table.sort(LIST, function(a, b) return a[1] < b[1] end)
return LIST
