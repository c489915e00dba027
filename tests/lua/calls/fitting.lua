-- SPDX-License-Identifier: MIT
--- Calls whose arguments fit each other: what is drawn value by value almost never multiplies,
--- convolves, asks an existing sweep or reads an existing file, so that whatever lies behind the
--- first checks is not reached. Each is a line of Lua over the sizes a, b, c, d, drawn anew; the
--- caller may then spoil one of its arguments.

local ffi = require 'ffi'
local ridge = require 'ridge'
local types = require 'ridge.types'

local M = {}

-- -- What the lines are made of -----------------------------------------------------------------

local SIZES = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33 }
local SPECIAL = { 0, -0.0, 1, -1, 0.5, 1e30, -1e30, 1e-30, 65504, 0 / 0, 1 / 0, -1 / 0 }
local OTHER = { 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool', 'f8e4m3' }

-- The same elements with other strides.
local function laid_out(draw, x)
  local rank, way = x.ndim, draw:pick(6)
  if way == 1 and rank >= 2 then
    return x:transpose(1, rank):contiguous():transpose(1, rank)
  end
  if way == 2 and rank >= 1 and x:size(rank) > 0 then
    local sizes = x:size()
    sizes[rank] = 2 * sizes[rank]
    local wide = ridge.zeros(sizes, { dtype = x.dtype })
    local thin = wide:narrow(rank, 1, x:size(rank), 2)
    thin:copy_(x)
    return thin
  end
  if way == 3 and rank >= 1 and x:size(1) > 0 then
    return x:narrow(1, 1, 1):expand(x:size())
  end
  return x
end

-- Calls run in another folder than the sources.
local FIXTURES = debug.getinfo(1, 'S').source:match '^@(.*/)' .. '../../fixtures/'

local function environment(draw)
  local env = setmetatable({ ridge = ridge, draw = draw }, { __index = _G })
  function env.fixture(name) return FIXTURES .. name end
  for _, name in ipairs { 'a', 'b', 'c', 'd' } do env[name] = draw:one(SIZES) end
  env.other = draw:often(30) and draw:one(OTHER) or nil -- all of one call, so that most still fit
  function env.one(list) return draw:one(list) end
  function env.often(percent) return draw:often(percent) end
  --- Random elements, in some of a thousand cases all special, with any strides.
  function env.F(...)
    local x = ridge.randn(...)
    if draw:often(10) then x:fill_(draw:one(SPECIAL)) end
    if draw:often(10) and x.count > 0 then
      x:reshape(-1):narrow(1, 1, 1):fill_(draw:one(SPECIAL))
    end
    if env.other then x = (env.other == 'u8' and x:abs() or x):to(env.other) end
    x = laid_out(draw, x)
    if draw:often(25) and (x.dtype == 'f32' or x.dtype == 'f64') then
      x = x:detach():requires_grad_()
    end
    return x
  end
  --- Whole numbers below n.
  function env.I(n, ...)
    return ridge.randint(0, n, ...):to(draw:one { 'i64', 'i64', 'i32', 'u8' })
  end
  --- A parameter that no call of before has touched.
  function env.net(n, m) return ridge.nn.Linear(n or 3, m or 2, { seed = 1 }) end
  function env.loader()
    return ridge.data.Loader({ ridge.randn(7, 3), ridge.randint(0, 2, 7) }, { batch = 3 })
  end
  --- A file that is there.
  function env.file(name, bytes)
    local file = assert(io.open(name, 'wb'))
    file:write(bytes)
    file:close()
    return name
  end
  function env.npy()
    ridge.save('fit.npy', ridge.ones(3, 2))
    return 'fit.npy'
  end
  function env.png()
    ridge.plot.draw('map', M.rows(), { x = 'width', y = 'batch' }):save 'fit.png'
    return 'fit.png'
  end
  --- An object, and the state of another one like it.
  function env.twice(make) return make(), make():state() end
  function env.rows() return M.rows() end
  function env.sweep() return M.open() end
  function env.another() return M.another() end
  function env.counted() return M.open 'counted' end
  return env
end

-- -- A sweep that has been measured -------------------------------------------------------------

--- Rows as figures get them; the caller may change them.
function M.rows()
  local list = {}
  for _, width in ipairs { 64, 128, 256 } do
    for _, batch in ipairs { 1, 8 } do
      for _, layer in ipairs { 'dense', 'sketched' } do
        local ns = width * batch * (layer == 'dense' and 3 or 2)
        list[#list + 1] = { layer = layer, width = width, batch = batch, state = 'ok', grade = 'A',
          num_terms = layer == 'sketched' and width / 64 or nil,
          low_rank = layer == 'sketched' and batch or nil, in_features = width, param_count = ns,
          out_features = width, dtype = 'f32', fwd = ns, fwd_lo = ns * 0.98, fwd_hi = ns * 1.02,
          fwd_n = 20, peak_bytes = ns * 4, peak_memory_mb = ns / 2 ^ 18 }
      end
    end
  end
  return list
end

--- A sweep of calls/measured.lua: the timed one, or `counted`.
---@param name string|nil
---@return table sweep
function M.open(name) return ridge.open 'fit.db':sweep(name or 'fit') end

--- The timed one, in a copy of its file: a sweep is not held against itself.
---@return table sweep
function M.another()
  local from, into = assert(io.open('fit.db', 'rb')), assert(io.open('another.db', 'wb'))
  into:write(from:read '*a')
  from:close()
  into:close()
  return ridge.open 'another.db':sweep 'fit'
end

-- -- Functions ----------------------------------------------------------------------------------

local IDX = "('\\0\\0\\8\\2\\0\\0\\0\\2\\0\\0\\0\\3' .. ('x'):rep(6))"

--- By name: the arguments, as Lua.
M.FUNCTIONS = {
  ['ridge.Function'] = '{ forward = function(_, x) return x * 2 end, backward = '
    .. 'function(_, dy) return dy * 2 end }',
  ['ridge.Stability'] = 'ridge.optim.SGD(net())',
  ['ridge.Trainer'] = 'net(), { lr = 0.1, say = function() end }',
  ['ridge.all_reduce_'] = '{ F(a, b):detach(), F(a, b):detach() }, { mean = often(50) }',
  ['ridge.anomaly'] = 'function(x) return (x * x):sum() end, F(a)',
  ['ridge.args'] = '{ { "epochs", 20, "passes" } }, { "--epochs=3" }',
  ['ridge.autotune'] = 'function(x) return x:matmul(x) end, F(a, a)',
  ['ridge.backend.apply'] = 'ridge.backend.now()',
  ['ridge.backend.load_choices'] = '{ db = "fit.db" }',
  ['ridge.backend.save_choices'] = '{ db = "fit.db" }',
  ['ridge.backend.why'] = 'function(x) return x:matmul(x) end, F(a, a)',
  ['ridge.backend.set_affinity'] = '{ 0 }',
  ['ridge.backend.set_default'] = 'ridge.backend.cpu { threads = 1 }',
  ['ridge.set_default_backend'] = 'ridge.backend.cpu { threads = 1 }',
  ['ridge.backend.set_gemm'] = 'one { "auto" }',
  ['ridge.backend.set_isa'] = '"base"',
  ['ridge.device.on_stream'] = '"cpu", 0, function(x) return x + 1 end, F(a)',
  ['ridge.geom'] = '1, 64', ['ridge.probe'] = '1, 64', ['ridge.range'] = '1, 9, 2',
  ['ridge.randint'] = '0, a, b', ['ridge.between'] = '1, 64, 3', ['ridge.logs'] = '1, 64, 3',
  ['ridge.bench.memory'] = '{ "linear{8,4}", "sketched{64,32,1,4}" }',
  ['ridge.bench.parse'] = '"linear{8,4}"',
  ['ridge.capture'] = 'function(x) return x:relu() + 1 end, F(a, b)',
  ['ridge.compare'] = '"fit.db", "fit.db"',
  ['ridge.compile'] = 'function(x) return x:relu() + 1 end, { mode = one { "default", '
    .. '"reduce-overhead", "auto" }, say = function() end }',
  ['ridge.einsum'] = 'one { "ij,jk->ik", "ij,jk", "ij,jk->" }, F(a, b), F(b, c)',
  ['ridge.concat'] = '{ F(a, b), F(a, c), F(a, d) }, 2',
  ['ridge.dist.init'] = 'one { {}, { backend = "none", timeout = 5 } }',
  ['ridge.dist.all_reduce'] = 'F(a, b), one { "sum", "mean", "max", "min", "prod" }',
  ['ridge.dist.broadcast'] = 'F(a, b), one { 0 }',
  ['ridge.dist.all_gather'] = 'F(a, b)',
  ['ridge.dist.reduce_scatter'] = 'F(a, b), one { "sum", "mean", "max" }',
  ['ridge.dist.barrier'] = '',
  ['ridge.dist.Sharded'] = 'ridge.optim.SGD(net())',
  ['ridge.dist.same'] = 'net(a, b)',
  ['ridge.dist.DataParallel'] = 'net(), one { {}, { compress = "bf16" }, { overlap = false }, '
    .. '{ sync_batch_norm = true } }',
  ['ridge.data.Loader'] = '{ F(7, 3), I(2, 7) }, { batch = one { 1, 2, 3, 7, 8 }, '
    .. 'shuffle = often(50), drop_last = often(50), workers = one { 0, 0, 1, 2 } }',
  ['ridge.data.csv'] = 'file("fit.csv", "a,b\\n1,2\\n3,\\"4\\"\\n")',
  ['ridge.data.idx'] = 'file("fit.idx", ' .. IDX .. ')',
  ['ridge.data.npy'] = 'npy()',
  ['ridge.data.cifar'] = '(function() for _, f in ipairs { "train.bin", "test.bin" } do '
    .. 'file(f, ("x"):rep(2 * 3074)) end return "." end)()',
  ['ridge.data.mnist'] = '(function() for _, part in ipairs { "train", "t10k" } do '
    .. 'file(part .. "-images-idx3-ubyte", "\\0\\0\\8\\3\\0\\0\\0\\1\\0\\0\\0\\2'
    .. '\\0\\0\\0\\2abcd") '
    .. 'file(part .. "-labels-idx1-ubyte", "\\0\\0\\8\\1\\0\\0\\0\\1\\1") end return "." end)()',
  ['ridge.data.rows'] = 'file("fit.rows", ("x"):rep(24)), { shape = { 4 }, dtype = "u8", '
    .. 'to = "f32", scale = one { 1, 1 / 255 } }',
  ['ridge.data.text'] = 'file("fit.txt", "abcabc")',
  ['ridge.db'] = 'one { "info", "check" }, { db = "fit.db" }',
  ['ridge.export'] = '"fit", { db = "fit.db", as = one { "csv", "json" }, o = "fit.out" }',
  ['ridge.grad'] = '(function() local x = ridge.randn(a, b):requires_grad_() fit_x = x '
    .. 'return (x * x):sum() end)(), fit_x, { create = often(50) }',
  ['ridge.grad_saved'] = '(ridge.randn(a):requires_grad_() * 2):sum()',
  ['ridge.graph'] = 'function(x, y) return x:matmul(y):gelu() end, F(a, b), F(b, c)',
  ['ridge.graph.is'] = 'a', ['ridge.graph.pass'] = '"mine", function(g) return g end',
  ['ridge.onnx.export'] = 'ridge.nn.Linear(a, b):eval(), "fit.onnx", '
    .. '{ x = F(c, a), test = false }',
  ['ridge.onnx.load'] = 'fixture "onnx/ops/softmax.onnx"',
  ['ridge.graph.parse'] = 'ridge.graph(net(), ridge.ones(2, 3)):json()',
  ['ridge.graph.load'] = 'file("fit.g.json", ridge.graph(net(), ridge.ones(2, 3)):json())',
  ['ridge.hook'] = '(ridge.ones(2):requires_grad_() * 3), function(g) return g * 2 end',
  ['ridge.level'] = 'ridge.nn.Sequential(net(), ridge.nn.ReLU()), one { "basic", "advanced", '
    .. '"ultra" }, nil, function() end',
  ['ridge.load'] = '(function() ridge.save("fit.safetensors", { w = F(a, b) }) '
    .. 'return "fit.safetensors" end)()',
  ['ridge.peek'] = '(function() ridge.save("fit.safetensors", { w = F(a, b) }) '
    .. 'return "fit.safetensors" end)()',
  ['ridge.str'] = '{ F(a, b), name = "x" }', ['ridge.summary'] = 'F(a, b)',
  ['ridge.clear_output'] = 'F(false)',
  ['ridge.data.stream'] = '(function() local i = 0 return function() i = i + 1 '
    .. 'if i <= 7 then return { i, 2 * i }, i end end end)(), { batch = one { 1, 2, 7, 8 } }',
  ['ridge.memory.alarm'] = '2 ^ 40, { say = function() end }',
  ['ridge.memory.leaks'] = 'function() return F(a, b) + 1 end, 2',
  ['ridge.memory.stages'] = '{ model = net, input = function() return F(a, 3) end }',
  ['ridge.memory.timeline'] = 'function() return F(a, b) + 1 end',
  ['ridge.advise'] = 'net(), F(a, 3), { seconds = 0.1, roof = "none" }',
  ['ridge.available'] = 'one { "cpu", "cuda", "amx" }',
  ['ridge.monitor'] = '{ every = 1, say = function() end }',
  ['ridge.tensorboard'] = '"fit.runs"',
  ['ridge.nn.attention'] = 'F(a, b, c), F(a, d, c), F(a, d, c), { causal = often(30) }',
  ['ridge.nn.bce_with_logits'] = 'F(a, b), F(a, b), { reduction = one { "mean", "sum", "none" } }',
  ['ridge.nn.cross_entropy'] = 'F(a, b), I(b, a), { reduction = one { "mean", "sum", "none" }, '
    .. 'smoothing = one { 0, 0.1, 1 }, ignore = one { -100, 0 } }',
  ['ridge.nn.distillation_loss'] = 'F(a, b), F(a, b), I(b, a), { temperature = one { 1, 4 } }',
  ['ridge.nn.feature_attention'] = 'F(1, b, 4), F(1, b, 4), F(1, b, 4), '
    .. 'ridge.nn.random_features(8, 4, 1), { causal = often(50) }',
  ['ridge.nn.huber_loss'] = 'F(a, b), F(a, b), { delta = one { 0.5, 1 } }',
  ['ridge.nn.l1_loss'] = 'F(a, b), F(a, b), { reduction = one { "mean", "sum", "none" } }',
  ['ridge.nn.mse_loss'] = 'F(a, b), F(a, b), { reduction = one { "mean", "sum", "none" } }',
  ['ridge.nn.AvgPool2d'] = '2', ['ridge.nn.MaxPool2d'] = '2, { stride = 1 }',
  ['ridge.nn.Conv2d'] = 'a, b, one { 1, 3, { 1, 3 } }, { padding = one { 0, 1 }, '
    .. 'stride = one { 1, 2 }, bias = often(50) }',
  ['ridge.nn.ConvTranspose2d'] = 'a, b, one { 1, 3 }, { stride = one { 1, 2 }, bias = often(50) }',
  ['ridge.nn.SKConv2d'] = '8, 16, 3, { num_terms = 1, low_rank = one { 1, 2 }, seed = 1 }',
  ['ridge.nn.SeparableConv2d'] = 'a, b, 3, { bias = often(50) }',
  ['ridge.memory.peak_of'] = 'function() return ridge.ones(a, b) + 1 end',
  ['ridge.nn.DataParallel'] = 'net(), { devices = { "cpu" }, running = one { "first", "all" } }',
  ['ridge.nn.Embedding'] = 'a, b', ['ridge.nn.GRU'] = 'a, b', ['ridge.nn.LSTM'] = 'a, b',
  ['ridge.nn.GroupNorm'] = '2, 4', ['ridge.nn.BatchNorm'] = 'a', ['ridge.nn.LayerNorm'] = 'a',
  ['ridge.nn.RMSNorm'] = 'a', ['ridge.nn.Linear'] = 'a, b, { activation = one { "gelu", "relu" } }',
  ['ridge.nn.LowRankLinear'] = 'a, b, { rank = one { 1, 2, 5 } }',
  ['ridge.nn.SKLinear'] = '16, 8, { num_terms = 1, low_rank = 2 }',
  ['ridge.nn.MultiHeadAttention'] = '8, { heads = one { 1, 2, 8 } }',
  ['ridge.nn.TransformerBlock'] = '8, { heads = one { 1, 2 } }',
  ['ridge.nn.Concat'] = '1, net(4, 4), ridge.nn.ReLU()',
  ['ridge.nn.Residual'] = 'net(4, 4), ridge.nn.ReLU()',
  ['ridge.nn.Sequential'] = 'net(4, 4), ridge.nn.ReLU()',
  ['ridge.nn.class'] = '"Mine", ridge.nn.Linear',
  ['ridge.nn.random_features'] = '8, 4, 1',
  ['ridge.nn.round_for_tensor_cores'] = '1000, 500, 8, 60',
  ['ridge.open'] = '"fit.db"',
  ['ridge.linspace'] = 'a, b, c', ['ridge.arange'] = '0, a, b', ['ridge.eye'] = 'a, b',
  ['ridge.device.set_default'] = '"cpu"', ['ridge.data.segments'] = 'a',
  ['ridge.no_grad'] = 'function() return 1 end', ['ridge.enable_grad'] = 'function() return 1 end',
  ['ridge.scope'] = 'function() return 1 end', ['ridge.profiles'] = '"fast_training"',
  ['ridge.profile_range'] = '"a", function() return 1 end',
  ['ridge.memory.tag'] = '"a", function() return 1 end',
  ['ridge.one_hot'] = 'I(b, a, c), one { b, c }',
  ['ridge.where'] = 'F(a, b):to "f32":gt(0), F(one { 1, a }, b), often(50) and F(b) or a',
  ['ridge.optim.Adam'] = 'net(), { lr = 0.1 }', ['ridge.optim.Lion'] = 'net()',
  ['ridge.optim.AdamW'] = 'net(), { lr = 0.1, amsgrad = often(50) }',
  ['ridge.optim.SGD'] = 'net(), { momentum = one { 0, 0.9 }, lr = 0.1 }',
  ['ridge.optim.CosineLR'] = 'ridge.optim.SGD(net()), { steps = a, warmup = one { 0, 1 } }',
  ['ridge.optim.OneCycleLR'] = 'ridge.optim.SGD(net()), { steps = a }',
  ['ridge.optim.StepLR'] = 'ridge.optim.SGD(net()), { every = a }',
  ['ridge.optim.PlateauLR'] = 'ridge.optim.SGD(net())',
  ['ridge.optimize_training'] = '(function() fit_net = net() return fit_net end)(), loader(), '
    .. 'ridge.optim.Adam(fit_net)',
  ['ridge.plot.batch'] = 'rows(), {}',
  ['ridge.plot.draw'] = 'one { "map", "slices", "steps", "effects", "uncertainty" }, rows(), '
    .. '{ x = "width", y = "fwd" }',
  ['ridge.plot.landscape'] = 'rows(), {}',
  ['ridge.plot.replot'] = 'png()', ['ridge.replot'] = 'png(), { o = "fit.2.png" }',
  ['ridge.plot.map'] = 'rows(), { x = "width", y = "batch" }',
  ['ridge.quantize'] = 'F(a, b), often(50) and 0.5 or ridge.rand(b), nil, { axis = 2 }',
  ['ridge.dequantize'] = 'I(100, a, b):to "u8", often(50) and 0.5 or ridge.rand(b), nil, '
    .. '{ axis = 2 }',
  ['ridge.pack_bits'] = 'I(4, a, 32):to "u8", { bits = one { 2, 3, 4, 8 } }',
  ['ridge.unpack_bits'] = 'I(100, a, 48):to "u8", { bits = one { 2, 3, 4, 6 } }',
  ['ridge.packed_linear'] = 'F(a, 32), I(100, b, 16):to "u8", ridge.rand(b, 1):to "f16", '
    .. '{ bits = 4 }',
  ['ridge.sparse'] = 'F(16, b), { block = one { 1, 16 } }',
  ['ridge.sparse_linear'] = 'F(a, b), ridge.sparse(F(16, b) * ridge.eye(16, b), '
    .. 'one { { block = 1 }, { block = 16 }, { pattern = "1:4" } })',
  ['ridge.scaled_add'] = 'I(100, a, b):to "i8", I(100, a, b):to "u8", 0.5, 0.25, { dtype = "i8", '
    .. 'y_scale = 0.5 }',
  ['ridge.scaled_pool2d'] = 'I(100, a, b, 6, 7):to "u8", one { 1, 2, 3 }, { average = often(50) }',
  ['ridge.quantize_rows'] = 'F(a, b)',
  ['ridge.prune.magnitude'] = 'net(a, b), { sparsity = 0.4, scope = "layer", method = '
    .. 'one { "l1", "l2", "random" }, pattern = one { "element", "block" } }',
  ['ridge.prune.Scheduler'] = '{ target = 0.5, steps = a, shape = one { "linear", "cubic", '
    .. '"exponential" } }',
  ['ridge.prune.iterative'] = 'net(a, b), { scope = "layer", schedule = ridge.prune.Scheduler { '
    .. 'target = 0.4, steps = 2 }, train = function() end }',
  ['ridge.prune.importance'] = 'net(a, b), { by = one { "l1", "l2", "random" } }',
  ['ridge.prune.shrink'] = 'ridge.nn.Sequential(net(a, 8), net(8, b)), F(c, a), { share = 0.5, '
    .. 'time = false }',
  ['ridge.prune.compact'] = 'ridge.prune.magnitude(net(a, b), { sparsity = 0.4, scope = '
    .. '"layer" }), { format = one { "dense", "rows", "blocks" } }',
  ['ridge.prune.analyze'] = 'net(a, b)',
  ['ridge.quant.dynamic'] = 'net(a, b):eval(), { rows = false, per = one { "channel", "tensor" } }',
  ['ridge.quant.weights'] = 'net(a, b):eval(), { pad = true, rows = false, '
    .. 'bits = one { 2, 3, 4, 6, 8 }, minimum = often(50), method = one { "rtn", "mse" } }',
  ['ridge.quant.prepare'] = 'net(a, b), { pad = true, bits = one { 2, 3, 4, 6, 8 } }',
  ['ridge.quant.convert'] = 'ridge.quant.prepare(net(a, b), { pad = true })',
  ['ridge.quant.sensitivity'] = 'net(a, b):eval(), { validate = ridge.data.Loader({ F(16, a), '
    .. 'I(b, 16) }), rows = false, kinds = { one { "i8", "w4" } } }',
  ['ridge.quant.search'] = 'net(a, b):eval(), { validate = ridge.data.Loader({ F(16, a), '
    .. 'I(b, 16) }), budget = 1, kinds = { "w8", "w4" } }',
  ['ridge.smaller'] = 'net(a, b):eval(), { validate = ridge.data.Loader({ F(16, a), I(b, 16) }), '
    .. 'budget = 0.01, looks = 1, only = { "quant" }, bits = { "dynamic", "w4" } }',
  ['ridge.quant.smooth'] = 'ridge.nn.Sequential(net(a, b), net(b, c)):eval(), '
    .. '{ calibrate = ridge.data.Loader({ F(16, a) }) }',
  ['ridge.nn.load'] = '(function() net():save("fit.m.safetensors") '
    .. 'return "fit.m.safetensors" end)()',
  ['ridge.quant.static'] = 'net(a, b):eval(), { calibrate = ridge.data.Loader({ F(16, a) }), '
    .. 'rows = false, observer = one { "minmax", "average", "percentile", "mse" } }',
  ['ridge.quant.int8'] = '{ batches = a }',
  ['ridge.quant.half'] = 'net(a, b):eval(), one { "bf16", "f16" }',
  ['ridge.quant.report'] = 'ridge.quant.half(net(a, b):eval())',
  ['ridge.quant.compare'] = 'net(a, b):eval(), ridge.quant.half(net(a, b):eval()), '
    .. '{ shape = { 1, a }, iterations = 1 }',
  ['ridge.quant.Linear'] = 'net(a, b):eval(), { per = "channel", name = "x" }',
  ['ridge.query'] = '"fit", { columns = "kind, median(fwd)", group = "kind", db = "fit.db" }',
  ['ridge.recompute'] = 'function(x, w) return x:matmul(w):gelu() end, F(a, b), F(b, c)',
  ['ridge.save'] = 'one { "fit.a.safetensors", "fit.b.safetensors" }, { w = F(a, b), i = I(4, c) }',
  ['ridge.scaled_linear'] = 'I(100, a, b):to "i8", I(100, c, b):to "i8", 0.5, '
    .. 'often(50) and 2 or ridge.rand(c, 1)',
  ['ridge.scaled_conv2d'] = 'I(100, d, a, 5 + b, 5 + c):to "u8", I(100, b, a, one { 1, 3 }, 3):to '
    .. '"i8", 0.5, often(50) and 2 or ridge.rand(b), { padding = one { 0, 1, 2 }, x_zero = 100 }',
  ['ridge.show'] = 'one { 1, 2, 3, 4 }, { db = "fit.db" }',
  ['ridge.sql'] = '"SELECT count(*) AS n, max(width) FROM fit", { db = "fit.db" }',
  ['ridge.sweep'] = '"other"',
  ['ridge.sweeps'] = '{ db = "fit.db" }',
  ['ridge.note'] = '"fit", one { "new BIOS", "a\\nb" }, { db = "fit.db" }',
  ['ridge.report'] = '"fit", { db = "fit.db", o = "fit.html", ["for"] = one { "fwd", '
    .. '"max square" } }',
  ['ridge.any'] = '{ a, b, c }',
  ['ridge.autocast'] = 'one { "bf16", "f16" }, function() return F(a, b) end',
  ['ridge.best'] = '"fit", { ["for"] = one { "fwd", "max square" }, n = a, db = "fit.db" }',
  ['ridge.top'] = '"fit", { by = one { "fwd", "square" }, n = a, db = "fit.db" }',
  ['ridge.merge'] = '"fit.merged.db", "fit.db"',
  ['ridge.store.open'] = '"fit.db", "read"',
  ['ridge.store.with'] = '"fit.db", "read", function() end',
  ['ridge.timeline'] = 'function(x) return x:softmax() end, F(a, b)',
  ['ridge.profile'] = 'function() F(a, b):softmax() end, one { { rows = a }, { num_steps = a, '
    .. 'wait = b, active = c, sort = one { "calls", "name" } }, { roof = "none" } }',
}

--- What is never spoiled, and why.
M.WHOLE = { ['ridge.args'] = 'says what is wrong with an option as programs do, and ends' }

-- -- Methods and layers ---------------------------------------------------------------------------

--- By name, with what the method is called on as the first argument.
M.METHODS = {
  ['tensor:matmul'] = 'F(a, b), F(b, c)', ['tensor:mm'] = 'F(a, b), F(b, c)',
  ['tensor:matmul '] = 'F(a, b, c), F(one { 1, a }, c, d)',
  ['tensor:conv2d'] = 'F(one { 1, 2, 3 }, a, 5 + b, 5 + c), F(d, a, one { 1, 3, 5 }, 3), '
    .. '{ padding = one { 0, 1, 2 }, stride = one { 1, 2, 3 }, dilation = one { 1, 1, 2 } }',
  ['tensor:max_pool2d'] = 'F(1, a, 4 + b, 4 + c), one { 2, 3 }, { stride = one { 1, 2, 3 } }',
  ['tensor:avg_pool2d'] = 'F(1, a, 4 + b, 4 + c), one { 2, 3 }, { stride = one { 1, 2, 3 } }',
  ['tensor:where'] = 'F(a, b), F(b):to "f32":gt(0), F(one { 1, a }, b)',
  ['tensor:gather'] = 'F(a, b), one { 1, -2 }, I(a, c, b)',
  ['tensor:scatter'] = 'ridge.randn(a, b), 1, I(a, c, b), ridge.randn(c, b), '
    .. '{ reduce = one { "none", "add", "mul", "max", "min" } }',
  ['tensor:index_select'] = 'F(a, b), 2, I(b, c)',
  ['tensor:gather_nd'] = 'F(a, a, b), I(a, c, one { 1, 2 })',
  ['tensor:scatter_nd'] = 'ridge.randn(a, b), I(a, c, 1), ridge.randn(c, b)',
  ['tensor:conv'] = 'F(2, a, 5 + b), F(d, a, 3), { padding = one { 0, 1 }, stride = c }',
  ['tensor:conv_transpose'] = 'F(1, a, 3, c), F(a, b, 2, 3), { stride = d }',
  ['tensor:max_pool'] = 'F(1, a, 4 + b), one { 2, 3 }, { ceil_mode = often(50) }',
  ['tensor:avg_pool'] = 'F(1, a, 4 + b), one { 2, 3 }, { ceil_mode = often(50) }',
  ['tensor:lp_pool'] = 'F(1, a, 4 + b), one { 2, 3 }, { p = one { 1, 2, 3 } }',
  ['nn.ConvTranspose2d ()'] = 'ridge.nn.ConvTranspose2d(a, b, 2, { stride = 2 }), F(2, a, c, d)',
  ['tensor:cumprod'] = 'F(a, b), one { 1, 2, -1 }',
  ['tensor:resize'] = 'F(1, 2, a, b), { c, d }, { mode = one { "nearest", "linear", "cubic" }, '
    .. 'coordinates = one { "half_pixel", "align_corners", "asymmetric" } }',
  ['tensor:compress'] = 'F(a, b), I(2, b), 2', ['tensor:instance_norm'] = 'F(a, b, c)',
  ['tensor:lrn'] = 'F(a, b, c), d',
  ['tensor:sort'] = 'F(a, b), one { 1, 2 }, { descending = often(50) }',
  ['tensor:topk'] = 'F(a, b), one { 0, 1 }, 2, { largest = often(50) }',
  ['tensor:pad'] = 'F(a, b), { { c, -1 }, d }, { mode = one { "constant", "reflect", "edge", '
    .. '"wrap" } }',
  ['tensor:roll'] = 'F(a, b), c, one { 1, -1 }', ['tensor:tile'] = 'F(a, b), c, d',
  ['tensor:flip'] = 'F(a, b), 1, 2', ['tensor:tril'] = 'F(a, b, c), one { 0, 1, -1 }',
  ['tensor:triu'] = 'F(a, b, c), one { 0, 1, -1 }',
  ['tensor:depth_to_space'] = 'F(1, 4 * a, b, c), 2, { order = one { "dcr", "crd" } }',
  ['tensor:space_to_depth'] = 'F(1, a, 2 * b, 2 * c), 2',
  ['tensor:clamp'] = 'F(a, b), -0.5, F(b)', ['tensor:leaky_relu'] = 'F(a, b), 0.1',
  ['tensor:any'] = 'F(a, b):to "f32", one { 1, 2, -1 }',
  ['tensor:all'] = 'F(a, b):to "f32", one { 1, 2, -1 }',
  ['tensor:logsumexp'] = 'F(a, b, c), one { 1, 2, 3 }',
  ['tensor:take'] = 'F(a, b), I(a, c)', ['tensor:svd'] = 'ridge.randn(a, b)',
  ['tensor:backward'] = '(ridge.randn(a, b):requires_grad_() * F(b)):sum()',
  ['tensor:on_gradient'] = 'ridge.ones(a):requires_grad_(), function(x) return x end',
  ['tensor:copy_'] = 'F(a, b), F(b)', ['tensor:dropout_'] = 'F(a, b), 0.5',
  ['tensor:cumsum'] = 'F(a, b), one { 1, 2, -1 }',
  ['tensor:softmax'] = 'F(a, b, c), one { 1, 2, 3 }',
  ['tensor:get'] = 'F(a, b), a, b', ['tensor:reshape'] = 'F(a, b), b, a',
  ['tensor:permute'] = 'F(a, b, c), 3, 1, 2', ['tensor:allclose'] = 'F(a, b), F(b)',
  ['tensor:narrow'] = 'F(a, b), 1, one { 1, a }, one { 0, 1 }, one { 1, 2, 3 }',
  ['tensor:to'] = 'F(a, b), one { "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool", '
    .. '"f8e4m3", "f8e5m2" }',
  ['nn.Linear ()'] = 'net(a, b), F(c, a)',
  ['nn.SKLinear ()'] = 'ridge.nn.SKLinear(16, 8, { num_terms = 2, low_rank = 2 }), F(a, 16)',
  ['nn.LowRankLinear ()'] = 'ridge.nn.LowRankLinear(7, 5, { rank = 2 }), F(a, 7)',
  ['nn.Conv2d ()'] = 'ridge.nn.Conv2d(a, b, 3, { padding = 1, activation = "relu" }), '
    .. 'F(2, a, c, d)',
  ['nn.SKConv2d ()'] = 'ridge.nn.SKConv2d(8, 16, 3, { num_terms = 1, low_rank = 2, padding = 1 })'
    .. ', F(1, 8, a, b)',
  ['nn.SeparableConv2d ()'] = 'ridge.nn.SeparableConv2d(a, b, 3, { padding = 1 }), F(2, a, c, d)',
  ['nn.LayerNorm ()'] = 'ridge.nn.LayerNorm(a), F(b, c, a)',
  ['nn.RMSNorm ()'] = 'ridge.nn.RMSNorm(a), F(b, a)',
  ['nn.BatchNorm ()'] = 'ridge.nn.BatchNorm(a), F(b, a, c, d)',
  ['nn.GroupNorm ()'] = 'ridge.nn.GroupNorm(2, 4), F(a, 4, b)',
  ['nn.Embedding ()'] = 'ridge.nn.Embedding(a, b), I(a, c, d)',
  ['nn.LSTM ()'] = 'ridge.nn.LSTM(a, b), F(one { 1, 3 }, c, a)',
  ['nn.GRU ()'] = 'ridge.nn.GRU(a, b), F(one { 1, 3 }, c, a)',
  ['nn.MultiHeadAttention ()'] = 'ridge.nn.MultiHeadAttention(8, { heads = one { 1, 2, 4 }, '
    .. 'causal = often(50) }), F(one { 1, 3 }, a, 8)',
  ['nn.TransformerBlock ()'] = 'ridge.nn.TransformerBlock(8, { heads = 2, causal = often(50) }), '
    .. 'F(one { 1, 3 }, a, 8)',
  ['nn.DataParallel ()'] = 'ridge.nn.DataParallel(net(), { devices = { "cpu" } }), F(a, 3)',
  ['nn.CrossEntropyLoss ()'] = 'ridge.nn.CrossEntropyLoss(), F(a, b), I(b, a)',
  ['a clip:load_state'] = 'twice(function() return ridge.optim.Clip { kind = "adaptive" } end)',
  ['a guard:load_state'] = 'twice(function() return ridge.optim.Guard() end)',
  ['a generator:load_state'] = 'twice(function() return ridge.generator(a) end)',
  ['a optimizer:load_state'] = 'twice(function() return ridge.optim.Adam(net()) end)',
  ['a optimizer:check_state'] = 'twice(function() return ridge.optim.Adam(net()) end)',
  ['a stability:load_state'] = 'twice(function() return ridge.Stability(ridge.optim.SGD(net())) '
    .. 'end)',
  ['a stability:plot'] = '(function() local s = ridge.Stability(ridge.optim.SGD(net())) '
    .. 'for _ = 1, a do s:step(F(1):sum()) end return s end)()',
  ['a trainer:load_state'] = 'twice(function() return ridge.Trainer(net(), { lr = 0.1 }) end)',
  ['a trainer:save'] = 'ridge.Trainer(net(), { lr = 0.1, folder = "." }), "last", loader()',
  ['a trainer:resume'] = '(function() local t = ridge.Trainer(net(), { lr = 0.1, folder = "." }) '
    .. 't:save("last", loader()) return t end)(), loader()',
  ['a module:analyze'] = 'net(a, b), F(c, a), { rounds = one { 0, 1 }, backward = often(50) }',
  ['a module:parametrize'] = 'net(), "weight", { forward = function(w) return w * 2 end }',
  ['a module:remove_parametrization'] = '(function() local m = net() m:parametrize("weight", '
    .. '{ forward = function(w) return w * 2 end }) return m end)(), "weight"',
  ['a timeline:overlap'] = 'ridge.timeline(function() return ridge.ones(9):sum() end), '
    .. 'function(s) return s.stream == 1 end, function(s) return s.stream == 0 end',
  ['a profile:bottlenecks'] = 'ridge.profile(function() return F(a, b):exp() end), '
    .. '{ threshold = 0.1, top = a }',
  ['a profile:table'] = 'ridge.profile(function() return F(a, b):exp() end), '
    .. '{ by = one { "operation", "call", "layer", "section" }, sort = "calls", rows = a }',
  ['a profile:trace'] = 'ridge.profile(function() return F(a, b):exp() end), "fit.trace.json"',
  ['a profile:flame'] = 'ridge.profile(function() return F(a, b):exp() end), "fit.svg"',
  ['a profile:folded'] = 'ridge.profile(function() return F(a, b):exp() end), "fit.folded"',
  ['a profile:speedscope'] = 'ridge.profile(function() return F(a, b):exp() end), "fit.speed.json"',
  ['a profile:roofline'] = 'ridge.profile(function() return F(a, b):exp() end), "fit.roof.png"',
  ['a event:since'] = 'ridge.device.event():set(), ridge.device.event():set()',
  ['tensor:squeeze'] = 'F(1, b), 1', ['tensor:view'] = 'ridge.ones(a, b), b, a',
  ['tensor:equal'] = 'F(a, b), F(a, b)', ['tensor:same_storage'] = 'F(a, b), F(a, b)',
  ['tensor:expand'] = 'ridge.ones(1, b), a, b', ['tensor:item'] = 'F(1, 1)',
  ['tensor:select'] = 'F(a, b), 2, b', ['tensor:unsqueeze'] = 'F(a, b), one { 1, 2, 3 }',
  ['tensor:fill_'] = 'F(a, b):detach(), one { 0, 1, 2 }',
  ['graph:optimize'] = 'ridge.graph(function(x) return x:relu() + 1 end, F(a)), {}',
  ['graph:changes'] = 'ridge.graph(function(x) return x:relu() * 1 end, F(a)):optimize '
    .. '{ "arithmetic_identities" }',
  ['graph:ablate'] = 'ridge.graph(function(x) return x:relu() + 1 end, F(a)):optimize '
    .. '{ "constant_folding" }',
  ['graph:memory'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:dot'] = 'ridge.graph(net(), ridge.ones(2, 3)), "fit.dot"',
  ['graph:at'] = 'ridge.graph(net(), ridge.ones(2, 3), { sizes = { { "N", 3 } } }), 5',
  ['graph:sizes'] = 'ridge.graph(net(), ridge.ones(2, 3), { sizes = { { "N", 3 } } })',
  ['graph:copy'] = 'ridge.graph(function(x) return x:relu() + 1 end, F(a))',
  ['graph:json'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:save'] = 'ridge.graph(net(), ridge.ones(2, 3)), "fit.json"',
  ['graph:nodes'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:values'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:inputs'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:outputs'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:states'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:same'] = 'ridge.graph(net(), ridge.ones(2, 3)), ridge.graph(net(), ridge.ones(2, 3))',
  ['graph:check'] = 'ridge.graph(net(), ridge.ones(2, 3))',
  -- what points of grade D have no say in is asked of those that have no grade
  ['sweep:best'] = 'counted(), "square", a', ['sweep:results'] = 'sweep()',
  ['sweep:samples'] = 'sweep(), sweep():results()[one { 1, 2, 3, 4 }], "fwd"',
  ['sweep:pareto'] = 'counted(), { min = { "square" }, max = { "share" } }',
  ['sweep:exponent'] = 'counted(), "square", "width", { by = one { "kind" } }',
  ['sweep:drift'] = 'counted(), "square"',
  ['sweep:compare'] = 'sweep(), another()', ['sweep:ceilings'] = 'sweep()',
  ['sweep:plot'] = 'sweep(), "map", { x = "width", y = "kind", z = "fwd" }',
}
for _, name in ipairs { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum', 'eq', 'ne', 'lt',
                        'le', 'gt', 'ge', 'logical_and', 'logical_or', 'logical_xor',
                        'remainder', 'fmod', 'floor_divide', 'trunc_divide', 'atan2', 'prelu',
                        'elu', 'celu', 'threshold' } do
  local compares = #name == 2 or name:find '^logical'
  M.METHODS['tensor:' .. name] = 'F(a, b), F(one { 1, a }, b)'
  M.METHODS['tensor:' .. name .. '_'] = ('F(a, b):detach()%s, F(one { 1, a }, b)%s'):format(
    compares and ':to "bool"' or '', compares and '' or ':detach()')
end
for _, name in ipairs { 'and', 'or', 'xor', 'left_shift', 'right_shift' } do
  M.METHODS['tensor:bitwise_' .. name] = 'I(100, a, b), I(8, one { 1, a }, b)'
  M.METHODS['tensor:bitwise_' .. name .. '_'] = 'I(100, a, b):to "i64", I(8, one { 1, a }, b)'
end
M.METHODS['tensor:bitwise_not'], M.METHODS['tensor:bitwise_not_'] = 'I(100, a, b)', 'I(100, a, b)'
for _, name in ipairs { 'isnan', 'isinf', 'isposinf', 'isneginf', 'isfinite', 'logical_not' } do
  M.METHODS['tensor:' .. name .. '_'] = 'F(a, b):detach():to "bool"' -- of the answers' type
end

-- The others mostly need nothing but the tensor; those that need more are found by chance.
for name in pairs(types.of(ridge.ones(1)).methods) do
  local full = 'tensor:' .. name
  M.METHODS[full] = M.METHODS[full] or name:find '_$' and 'F(a, b):detach()' or 'F(1, b)'
end

local names = {}
for name in pairs(M.FUNCTIONS) do names[#names + 1] = name end
for name in pairs(M.METHODS) do names[#names + 1] = name end
table.sort(names)
--- All names, sorted.
M.names = names

local function called(f, ...) return f(...) end

--- A call that fits: its function, arguments, their number and text.
---@param draw table
---@param name string
---@return function f
---@return table given
---@return number n
---@return string shown
function M.call(draw, name)
  local line = M.FUNCTIONS[name] or M.METHODS[name]
  local chunk = assert(loadstring('return ' .. line, '@calls/fit.lua'))
  local function pack(...) return { ... }, select('#', ...) end
  local given, n = pack(setfenv(chunk, environment(draw))())
  local f
  if M.FUNCTIONS[name] then
    f = ridge
    for part in name:match '^ridge%.(.*)$':gmatch '[^.]+' do f = f[part] end
  elseif name:find ' %(%)$' then
    f = called
  else
    f = given[1][name:match ':([%w_]+)']
  end
  local texts = {}
  for i = 1, n do
    local x = given[i]
    texts[i] = ridge.is_tensor(x) and x:describe() or type(x) == 'cdata' and tostring(ffi.typeof(x))
      or type(x) == 'table' and '{..}' or tostring(x)
  end
  return f, given, n, line .. '  --  ' .. table.concat(texts, ', ')
end

return M
