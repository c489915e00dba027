-- SPDX-License-Identifier: MIT
--
-- Calls that are refused, one for each sentence that no other test asks for: name, function.

local ridge = require 'ridge'
local analyze = require('ridge.analyze').analyze
local nn, optim, data, onnx = ridge.nn, ridge.optim, ridge.data, ridge.onnx

local function model(n)
  return nn.Sequential(nn.Linear(4, n or 4), nn.ReLU(), nn.Linear(n or 4, 2)):eval()
end
local function x(...) return ridge.zeros(...) end
local function loader(n) return data.Loader({ ridge.randn(n or 8, 4), ridge.zeros(n or 8, 2) },
  { batch = 4 }) end

local LIST = {}
local function call(name, f) LIST[#LIST + 1] = { name, f } end

-- -- Tensors -------------------------------------------------------------------------------------

call('x[1] of a scalar', function() return ridge.tensor(1)[1] end)
call('x[1.5]', function() return x(3)[1.5] end)
call('x[{ name = 1 }]', function() return x(3)[{ name = 1 }] end)
call('x[{ nil, 1 }]', function() return x(3, 3)[{ nil, 1 }] end)
call('x[{ {1, 2, 1, 1} }]', function() return x(3)[{ { 1, 2, 1, 1 } }] end)
call('x[{ {3, 1} }]', function() return x(3)[{ { 3, 1 } }] end)
call('x[{ true }]', function() return x(3)[{ true }] end)
call('get of too many', function() return x(3):get(1, 1) end)
call('item of three', function() return x(3):item() end)
call('permute with nine', function() return x(3):permute(1, 1, 1, 1, 1, 1, 1, 1, 1) end)
call('axis 0', function() return x(3):sum(0) end)
call('axes of a text', function() return x(3):sum 'a' end)
call('pad of text', function() return x(3):pad 'a' end)
call('pad of true', function() return x(3):pad { true } end)
call('tile to nine axes', function() return x(3):tile(1, 1, 1, 1, 1, 1, 1, 1, 1) end)
call('space_to_depth of 3 x 3', function() return x(1, 1, 3, 3):space_to_depth(2) end)
call('space_to_depth of two axes', function() return x(3, 3):space_to_depth(2) end)
call('einsum of a digit', function() return ridge.einsum('i1,i->i', x(3), x(3)) end)
call('instance_norm of one axis', function() return x(3):instance_norm() end)
call('lrn of size 0', function() return x(1, 3, 2):lrn(0) end)
call('lrn of one axis', function() return x(3):lrn(1) end)
call('grad of one without', function() return ridge.grad(x(3):sum(), { x(3) }) end)
call('on_gradient of a number', function() return x(3):requires_grad_():on_gradient(1) end)
call('gather_nd of a number', function()
  return x(3):gather_nd(ridge.zeros(2, 0, { dtype = 'i64' }))
end)
call('gather_nd of other batches', function()
  return x(3, 2):gather_nd(ridge.ones(2, 1, { dtype = 'i64' }), { batch = 1 })
end)
call('allclose of text', function() return x(3):allclose(x(3), 'a') end)
call('a field', function() x(3).zork = 1 end)
call('zeros of nine axes', function() return ridge.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1) end)
call('full of text', function() return ridge.full({ 2 }, 'a') end)
call('eye of none', function() return ridge.eye() end)
call('tensor of nested lists', function()
  local list = {}
  for _ = 1, 12 do list = { list } end
  return ridge.tensor(list)
end)
call('tensor of ragged lists', function() return ridge.tensor { { 1, 2 }, { 3 } } end)
call('tensor of a hole', function() return ridge.tensor { 1, nil, 3 } end)
call('tensor of a function', function() return ridge.tensor(print) end)
call('inference of 1', function() return ridge.inference(1) end)
call('dropout_ of text', function() return x(3):dropout_ 'a' end)
call('max_pool2d of 5', function() return x(1, 1, 3, 3):max_pool2d(5) end)
call('max_pool2d with padding true', function()
  return x(1, 1, 3, 3):max_pool2d(2, { padding = 'a' })
end)
call('resize of scales', function() return x(1, 1, 3, 3):resize({ 2, 2 }, { scales = 1 }) end)
call('resize of crop', function() return x(1, 1, 3, 3):resize({ 2, 2 }, { crop = 1 }) end)
call('resize of true', function() return x(1, 1, 3, 3):resize(true) end)
call('quantize with a zero of text', function() return ridge.quantize(x(3), 1, 'a') end)
call('quantize with a zero of 300', function()
  return ridge.quantize(x(3), 1, 300, { type = 'u8' })
end)

-- -- Modes, devices, plans, graphs ---------------------------------------------------------------

call('autocast of zork', function() return ridge.autocast('zork', function() end) end)
call('set_default_device of 1', function() return ridge.set_default_device(1) end)
call('set_threads of 1.5', function() return ridge.backend.set_threads(1.5) end)
call('set_affinity of text', function() return ridge.backend.set_affinity 'a' end)
call('set_affinity of -1', function() return ridge.backend.set_affinity { -1 } end)
call('set_priority of 99', function() return ridge.backend.set_priority(99) end)
call('backend.apply of zork', function() return ridge.backend.apply { zork = 1 } end)
call('capture of nothing', function() return ridge.capture(function() end) end)
call('graph of nothing', function() return ridge.graph(function() end, x(3)) end)
call('graph.lines of 1', function() return ridge.graph.lines(1) end)
call('memory.lines of 1', function() return ridge.memory.lines(1) end)
call('plan:run of a name', function()
  return ridge.capture(function() return x(3) + 1 end):run { a = x(3) }
end)
call('plan.run without a plan', function()
  return ridge.capture(function() return x(3) + 1 end).run(1)
end)
call('plan:run of too much', function()
  return ridge.capture(function() return x(3) + 1 end):run(1, 2, 3)
end)
call('plan:clone of a capture', function()
  return ridge.capture(function() return x(3) + 1 end):clone()
end)
call('plan:run of another shape', function()
  return ridge.graph(function(a) return a + 1 end, x(3)):plan():run { x(4) }
end)
call('graph:changes before passes', function()
  return ridge.graph(function(a) return a + 1 end, x(3)):changes()
end)
call('graph:ablate before passes', function()
  return ridge.graph(function(a) return a + 1 end, x(3)):ablate()
end)
call('graph:plan of another output', function()
  return ridge.graph(function(a) return a + 1 end, x(3)):plan { outputs = { 'zork' } }
end)
call('graph:at without sizes', function()
  return ridge.graph(function(a) return a + 1 end, x(3)):at { N = 2 }
end)
for k, sizes in ipairs { { { 3 } }, { { 'N', 3, 4 } }, { { 'a b', 3 } }, { { 2, 3 } },
    { { 'N', 'N' } }, 5, { 5 } } do
  call('graph with sizes ' .. k, function()
    return ridge.graph(function(a) return a + 1 end, x(2, 3), { sizes = sizes })
  end)
end
call('graph at N = 0', function()
  return ridge.graph(function(a) return a + 1 end, x(2, 3), { sizes = { { 'N', 3 } } }):at(0)
end)
call('graph at N = text', function()
  return ridge.graph(function(a) return a + 1 end, x(2, 3), { sizes = { { 'N', 3 } } })
    :at({ N = 'a' })
end)
call('graph.parse of a section', function() return ridge.graph.parse 'zork' end)
call('scope of 1', function() return ridge.scope(1) end)
call('memory.tag of 1', function() return ridge.memory.tag(1, print) end)
call('memory.tag of no function', function() return ridge.memory.tag('a', 1) end)
call('memory.stages of 1', function() return ridge.memory.stages(function() return 1 end, x(3)) end)
call('profile.names of 1', function() return require('ridge.profile').names(1) end)
call('profile.range of 1', function() return require('ridge.profile').range(1, 2) end)
call('profile of a cycle', function() return ridge.profile(function() end, { wait = 1 }) end)
call('state resume', function() return coroutine.resume(1) end)
call('state wrap', function() return coroutine.wrap(1) end)
call('generator of 1', function() return ridge.randn(3, { generator = 1 }) end)
call('save to 1', function() return ridge.save(1, x(3)) end)

-- -- Modules, training ---------------------------------------------------------------------------

call('a module in itself', function()
  local net = nn.Sequential()
  net:add(net)
end)
call('Sequential with 1', function() return nn.Sequential(nn.ReLU(), 1) end)
call('ConvTranspose2d of two axes', function() return nn.ConvTranspose2d(1, 1, 2)(x(3, 3)) end)
call('SKConv2d from groups', function()
  return nn.SKConv2d.from(nn.Conv2d(4, 4, 3, { groups = 2 }))
end)
call('GradScaler twice', function()
  local net = nn.Linear(2, 2)
  local s, o = optim.GradScaler(), optim.SGD(net, { lr = 0.1 })
  s:scale(net(x(1, 2)):sum()):backward()
  s:unscale(o)
  s:unscale(o)
end)

-- -- Data ----------------------------------------------------------------------------------------

call('segments of 0', function() return data.segments(0) end)
call('a loader of prepared 1', function()
  return data.Loader({ x(4, 2), x(4) }, { prepared = 1 })
end)
call('csv like 1', function()
  return data.csv('tests/lua/sentences.csv', { like = 1 })
end)
call('csv of no file', function() return data.csv 'tests/lua/none.csv' end)

-- -- Pictures ------------------------------------------------------------------------------------

local color, scale = require 'ridge.plot.color', require 'ridge.plot.scale'
call('color.hex of zork', function() return color.hex 'zork' end)
call('color.simulate of zork', function() return color.simulate({ 0, 0, 0 }, 'zork') end)
call('theme of zork', function() return require('ridge.plot.theme').get 'zork' end)
call('a scale to inf', function() return scale.linear(0, 1 / 0) end)
call('a scale of logarithms from 0', function() return scale.log(0, 1) end)
call('a fit around inf', function() return scale.fit({ 1 / 0 }, { log = false }) end)
call('a fit of logarithms around 0', function() return scale.fit({ 0, 1 }, { log = 10 }) end)

-- -- What is kept --------------------------------------------------------------------------------

local canonical = require 'ridge.store.canonical'
for name, value in pairs { ['nan'] = 0 / 0, ['a function'] = print, ['bytes'] = '\255',
    ['a key'] = { [true] = 1 }, ['a hole'] = { 1, nil, 3, x = 1 } } do
  call('canonical of ' .. name, function() return canonical.encode(value) end)
end
call('canonical of itself', function()
  local t = {}
  t.t = t
  return canonical.encode(t)
end)
for _, text in ipairs { '', '{', '[1,]', '"a', '01', 'tru', '{"a" 1}', '1 2' } do
  call('canonical of ' .. text, function() return canonical.decode(text) end)
end
local expression = require 'ridge.store.expression'
call('an expression of 1', function() return expression.parse(1) end)
call('query of columns twice', function()
  return ridge.query('s', 'a', { db = 'none.db', columns = 'b' })
end)
call('merge of one', function() return ridge.merge 'a.db' end)
call('merge of a number', function() return ridge.merge('a.db', 1) end)

-- -- Sweeps --------------------------------------------------------------------------------------

call('when of 1', function() return require('ridge.sweep').when(1, 2) end)
call('when of nothing', function() return require('ridge.sweep').when(print) end)
for name, space in pairs { trial = { trial = { 1, 2 } }, ['a and A'] = { a = { 1 }, A = { 2 } } } do
  call('a space of ' .. name, function()
    return ridge.sweep 's' { space = space, measure = print }:points()
  end)
end
call('external without a command', function() return ridge.measure.external() end)
call('external of a number', function() return ridge.measure.external { command = { 1 } } end)
call('external of none', function()
  return ridge.measure.external { command = { 'ridge-zork' } }
end)

-- -- Compression ---------------------------------------------------------------------------------

local prune, quant = ridge.prune, ridge.quant
call('prune by loss of 1', function()
  return prune.importance(model(), { by = 'taylor', calibrate = loader(), loss = 1 })
end)
call('prune by data of none', function() return prune.importance(model(), { by = 'taylor' }) end)
call('prune to nothing', function() return prune.magnitude(model(), { sparsity = 1 }) end)
call('prune by zork', function()
  return prune.magnitude(model(), { sparsity = 0.5, pattern = 'zork' })
end)
call('prune nothing', function()
  return prune.magnitude(nn.Sequential(nn.ReLU()):eval(), { sparsity = 0.5 })
end)
call('prune nan', function()
  local net = model()
  ridge.no_grad(function() net[1].weight:fill_(0 / 0) end)
  return prune.magnitude(net, { sparsity = 0.5 })
end)
call('iterative with schedule 1', function()
  return prune.iterative(model(), { schedule = 1, train = print })
end)
call('iterative with train 1', function()
  return prune.iterative(model(), { train = 1,
    schedule = prune.Scheduler { target = 0.5, steps = 3 } })
end)
call('a schedule from 2', function()
  return prune.Scheduler { start = 2, target = 0.5, steps = 3 }
end)
call('a schedule at -1', function() return prune.Scheduler { target = 0.5, steps = 3 }:at(-1) end)
call('shrink by importance 1', function()
  return prune.shrink(model(), x(1, 4), { share = 0.5, importance = 1 })
end)
call('quant.dynamic of no layer', function()
  return quant.dynamic(nn.Sequential(nn.ReLU()):eval())
end)
call('quant.dynamic of nan', function()
  local net = model()
  ridge.no_grad(function() net[1].weight:fill_(0 / 0) end)
  return quant.dynamic(net)
end)
call('a quantized net in training', function() return quant.dynamic(model()):train() end)
call('quant.compare of two plain ones', function()
  return quant.compare(model(), model(), { test = loader() })
end)
call('quant.weights by gptq of nothing', function()
  return quant.weights(model(), { method = 'gptq' })
end)
call('quant.weights by rounding of data', function()
  return quant.weights(model(), { method = 'rtn', calibrate = loader() })
end)
call('quant.prepare twice', function() return quant.prepare(quant.prepare(model())) end)
call('quant.static in training', function()
  return quant.static(model():train(), { calibrate = loader() })
end)
call('smaller with only zork', function()
  return ridge.smaller(model(), { only = { 'zork' }, input = x(1, 4), validate = loader() })
end)
call('smaller with no rows', function()
  return ridge.smaller(model(), { input = x(0, 4), validate = loader() })
end)

-- -- Advice, figures, logs -----------------------------------------------------------------------

call('advise of 1', function() return ridge.advise(1) end)
call('advise of a net', function() return ridge.advise(model()) end)
call('advise of a net and 1', function() return ridge.advise(model(), 1) end)
call('analyze with roof 1', function() return analyze(model(), x(1, 4), { roof = 1 }) end)
call('analyze with loss 1', function()
  return analyze(model(), x(1, 4), { loss = function() return 1 end, backward = true })
end)
call('analyze without gradient', function()
  return analyze(nn.Sequential(nn.ReLU()):eval(), x(1, 4), { backward = true })
end)
call('what_if of batch 0', function()
  return analyze(model(), x(1, 4), { rounds = 0 }):what_if { batch = 0 }
end)
call('what_if of i64', function()
  return analyze(model(), x(1, 4), { rounds = 0 }):what_if { dtype = 'i64' }
end)
call('find_bottlenecks of nothing', function()
  return analyze(model(), x(1, 4), { rounds = 0 }):find_bottlenecks()
end)
call('bench.batch_size of a function in training', function()
  return ridge.bench.batch_size(function(a) return a end,
    { kind = 'training', input_shape = { 4 } })
end)
call('bench.batch_size from 8 to 4', function()
  return ridge.bench.batch_size(model(), { min = 8, max = 4, input_shape = { 4 } })
end)
call('bench.batch_size without a shape', function()
  return ridge.bench.batch_size(function(a) return a end)
end)
call('bench.batch_size of nothing', function() return ridge.bench.batch_size() end)
call('monitor.step of 1', function() return ridge.monitor():step(1) end)
call('monitor.accuracy of 3 of 2', function() return ridge.monitor():accuracy(3, 2) end)

-- -- ONNX ----------------------------------------------------------------------------------------

for name, given in pairs { ['of text'] = { model(), 'a' }, ['of 1'] = { 1, x(1, 4) },
    ['in training'] = { model():train(), x(1, 4) },
    ['dynamic zork'] = { model(), x(1, 4), { dynamic = { zork = { 'N' } } } },
    ['dynamic text'] = { model(), x(1, 4), { dynamic = { input = 'N' } } },
    ['dynamic 1'] = { model(), x(1, 4), { dynamic = { input = { 1 } } } },
    ['dynamic blank'] = { model(), x(1, 4), { dynamic = { input = { 'a b' } } } },
    ['dynamic twice'] = { model(), x(1, 4), { dynamic = { input = { 'N', 'N' } } } },
    ['of no rows'] = { model(), x(0, 4), { dynamic = { input = { 'N' } } } } } do
  call('onnx.export ' .. name, function()
    local opts = given[3] or {}
    opts.x = given[2]
    return onnx.export(given[1], '/nowhere/a.onnx', opts)
  end)
end
call('onnx.load of 1', function() return onnx.load(1) end)

-- -- The command line ----------------------------------------------------------------------------

local args = require 'ridge.cli.args'
for name, spec in pairs { ['a text'] = 'a', ['an unknown key'] = { zork = 1 },
    ['no name'] = { { 1 } }, ['an unknown key of one'] = { { 'a', 1, 'doc', zork = 1 } },
    ['a default'] = { { 'a', function() end, 'doc' } },
    ['two'] = { { 'a', 1, 'doc' }, { 'a', 1, 'doc' } } } do
  call('args of ' .. name, function() return args.parse(spec, {}) end)
end

table.sort(LIST, function(a, b) return a[1] < b[1] end)
return LIST
