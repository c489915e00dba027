-- SPDX-License-Identifier: MIT
-- What the records say of their inputs and arguments, and that methods, help and refusals follow
-- from it.  Roles and signatures are written down here by hand, as they are meant.

local ridge = require 'ridge'
local nn = ridge.nn
local schema = require 'ridge.tensor.schema'
local method = require 'ridge.tensor.method'

-- name: inputs with their roles ('?' optional, '*' a list), then the signature's arguments
local ELEMENT = 'neg abs sign square relu floor ceil round sqrt rsqrt reciprocal exp log log1p ' ..
  'sin cos tanh erf sigmoid gelu silu softplus trunc exp2 expm1 log2 tan asin acos atan sinh ' ..
  'cosh asinh acosh atanh selu mish softsign hardsigmoid hardswish relu6 logical_not isnan ' ..
  'isinf isposinf isneginf isfinite bitwise_not'
local PAIR = 'add sub mul div pow maximum minimum eq ne lt le gt ge logical_and ' ..
  'logical_or logical_xor remainder fmod floor_divide trunc_divide atan2 prelu elu celu ' ..
  'threshold bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift'
local RECORDS = {
  where = { 'cond bits, x input, y input', '' },
  act_back = { 'dy input, x input', 'act' },
  fused = { 'xs native*', '' },
  fill = { '', 'value' },
  arange = { '', 'start = 0, step = 1' },
  copy = { 'y input', '' },
  cast = { 'x input', 'dtype' },
  concat = { 'xs input*', 'axis = 1' },
  take = { 'x native, index index', '' },
  take_back = { 'dy native, index index', 'rows' },
  uniform = { '', 'lo = 0, hi = 1, generator = nil' },
  normal = { '', 'mean = 0, std = 1, generator = nil' },
  signs = { '', 'scale = 1, generator = nil' },
  randint = { '', 'lo, hi, generator = nil' },
  dropout = { 'x input', 'p = 0.5, generator = nil' },
  dropout_back = { 'dy input, draw bits', 'p = 0.5' },
  sum = { 'x input', 'axes = all, keep = false' },
  mean = { 'x input', 'axes = all, keep = false' },
  prod = { 'x input', 'axes = all, keep = false' },
  max = { 'x input', 'axes = all, keep = false' },
  min = { 'x input', 'axes = all, keep = false' },
  norm = { 'x input', 'p = 2, axes = all, keep = false' },
  cumsum = { 'x input', 'axis = -1, reverse = false' },
  argmax = { 'x input', 'axis = -1, keep = false' },
  argmin = { 'x input', 'axis = -1, keep = false' },
  softmax = { 'x input', 'axis = -1' },
  softmax_back = { 'dy input, y input', 'axis = -1' },
  layer_norm = { 'x native, weight native?, bias native?', 'eps = 1e-05, rms = false' },
  layer_norm_back = { 'dy native, x native, mean native, scale native, weight native?',
    'eps = 1e-05, rms = false' },
  attention = { 'q input, k input, v input, mask bits?', 'scale = 0, causal = false, block = 64' },
  attention_back = {
    'q input, k input, v input, mask bits?, y input, lse native, dy input',
    'scale = 0, causal = false, block = 64' },
  attention_dropout = { 'q input, k input, v input, mask bits?',
    'scale = 0, causal = false, block = 64, p = 0.5, generator = nil' },
  attention_dropout_back = {
    'q input, k input, v input, mask bits?, y input, lse native, dy input, draw bits',
    'scale = 0, causal = false, block = 64, p = 0.5' },
  cross_entropy = { 'x native, labels index, weight native?',
    'ignore = -100, smoothing = 0, reduction = mean' },
  cross_entropy_back = {
    'dy native, x native, labels index, lse native, total native, weight native?',
    'ignore = -100, smoothing = 0, reduction = mean' },
  sgd_step = { 'rate native, count state, scale native?, params state*, grads native*, ' ..
    'momenta state?*', 'momentum = 0, dampening = 0, weight_decay = 0, nesterov = false' },
  adam_step = { 'rate native, count state, scale native?, params state*, grads native*, ' ..
    'm state*, v state*, most state?*', 'beta1 = 0.9, beta2 = 0.999, eps = 1e-08, ' ..
    'weight_decay = 0, decoupled = false, amsgrad = false' },
  lion_step = { 'rate native, count state, scale native?, params state*, grads native*, m state*',
    'beta1 = 0.9, beta2 = 0.99, weight_decay = 0' },
  total_norm = { 'xs input*', '' },
  all_reduce = { 'xs state*', 'mean = false' },
  matmul = { 'x weight, y weight', '' },
  linear = { 'x input, w weight, b bias?', 'act = none' },
  linear_dropout = { 'x input, w weight, b bias?', 'act = none, p = 0.5, generator = nil' },
  lowrank_linear = { 'x input, a weight, b weight, bias bias?', 'act = none' },
  sketched_linear = { 'x input, left weight, right weight, bias bias?',
    'n_terms, act = none, p = 0, generator = nil' },
  sketched_linear_bits = {
    'x input, s1 weight, u1_bits bits, u2_bits bits, s2 weight, bias bias?',
    'n_terms, act = none, p = 0, generator = nil' },
  sketched_linear_seed = { 'x input, s1 weight, seed bits, s2 weight, bias bias?',
    'n_terms, act = none, p = 0, generator = nil' },
  scaled_linear = { 'x native, w native, x_scale native?, w_scale native, b native?, ' ..
    'y_scale native?', 'act = none, dtype = f32, x_zero = 0, y_zero = 0' },
  expand_signs = { 'bits bits', 'cols, sign, dtype' },
  sign_bits = { 'seed bits', 'matrix, rows, cols' },
  conv2d = { 'x input, w weight, b bias?', 'stride = 1, dilation = 1, pad_low = 0, ' ..
    'pad_high = 0, groups = 1, layout = nchw, act = none' },
  conv2d_add = { 'x input, w weight, r input, b bias?', 'stride = 1, dilation = 1, ' ..
    'pad_low = 0, pad_high = 0, groups = 1, layout = nchw, act = none' },
  scaled_conv2d = { 'x native, w native, x_scale native, w_scale native, b native?, ' ..
    'y_scale native?', 'stride = 1, dilation = 1, pad_low = 0, pad_high = 0, groups = 1, ' ..
    'layout = nchw, act = none, x_zero = 0, y_zero = 0, dtype = f32' },
  conv2d_back_data = { 'dy input, w weight', 'size, stride = 1, dilation = 1, pad_low = 0, ' ..
    'pad_high = 0, groups = 1, layout = nchw, act = none' },
  conv2d_back_weight = { 'x input, dy input', 'size, stride = 1, dilation = 1, pad_low = 0, ' ..
    'pad_high = 0, groups = 1, layout = nchw, act = none' },
  max_pool2d = { 'x input', 'size, stride = 0, pad_low = 0, pad_high = 0, layout = nchw, ' ..
    'skip_pad = false' },
  max_pool2d_back = { 'dy input, index bits', 'rows, columns, size, stride = 0, pad_low = 0, ' ..
    'pad_high = 0, layout = nchw, skip_pad = false' },
  avg_pool2d = { 'x input', 'size, stride = 0, pad_low = 0, pad_high = 0, layout = nchw, ' ..
    'skip_pad = false' },
  avg_pool2d_back = { 'dy input', 'rows, columns, size, stride = 0, pad_low = 0, ' ..
    'pad_high = 0, layout = nchw, skip_pad = false' },
  svd = { 'x input', '' },
  cumprod = { 'x input', 'axis = -1, reverse = false' },
  resample = { 'x native', 'axis = -1, size, mode = 0, coordinates = 0, rounding = 0, ' ..
    'antialias = false, exclude = false, scale = 0, cubic = -0.75, first = 0, last = 1, ' ..
    'value = 0' },
  resample_back = { 'dy native', 'axis = -1, size, mode = 0, coordinates = 0, rounding = 0, ' ..
    'antialias = false, exclude = false, scale = 0, cubic = -0.75, first = 0, last = 1, ' ..
    'value = 0' },
  sort = { 'x native', 'axis = -1, descending = false' },
  topk = { 'x native', 'k, axis = -1, largest = true' },
  pad = { 'x native', 'low, high, mode = 0, value = 0' },
  pad_back = { 'dy native', 'low, high, mode = 0, shape' },
  tril = { 'x native', 'diagonal = 0' },
  triu = { 'x native', 'diagonal = 0' },
  gather = { 'x native, index index', 'axis = -1' },
  scatter = { 'x native, index index, src native', 'axis = -1, reduce = 0' },
}
for name, record in pairs(dofile((debug.getinfo(1, 'S').source:match('^@(.*/)') or './')
  .. 'records_quantize.lua')) do RECORDS[name] = record end
for name in ELEMENT:gmatch '%S+' do RECORDS[name] = { 'x input', '' } end
for name in PAIR:gmatch '%S+' do RECORDS[name] = { 'x input, y input?', '' } end

local by_name = {}
for _, record in ipairs(schema.records()) do by_name[record.name] = record end

local function inputs_text(record)
  local list = {}
  for i, input in ipairs(record.inputs) do
    list[i] = ('%s %s%s%s'):format(input.name, input.role, input.optional and '?' or '',
      input.list and '*' or '')
  end
  return table.concat(list, ', ')
end

-- The arguments of a signature, behind the tensors.
local function arguments_text(record)
  local list = {}
  for part in schema.signature(record):match('%((.*)%) %->'):gmatch '[^,]+' do
    list[#list + 1] = part:match '^%s*(.-)%s*$'
  end
  for _ = 1, (record.into and 1 or 0) + #record.inputs do table.remove(list, 1) end
  return table.concat(list, ', ')
end

describe('a record', function()
  for name, wanted in pairs(RECORDS) do
    it('says what it is given: ' .. name, function()
      local record = assert(by_name[name], 'there is no such record')
      assert.are.equal(wanted[1], inputs_text(record))
      assert.are.equal(wanted[2], arguments_text(record))
    end)
  end

  it('is written down here', function()
    for name in pairs(by_name) do assert.is_truthy(RECORDS[name], name) end
  end)

  it('names its results, hidden ones too', function()
    assert.are.same({ 'u', 's', 'vt' }, by_name.svd.results)
    assert.are.same({ 'lse', 'total' }, by_name.cross_entropy.hidden)
    assert.are.same({ 'draw' }, by_name.dropout.hidden)
    for _, record in ipairs(schema.records()) do
      local writes = record.name:find '_step$' or record.name == 'all_reduce'
      assert.are.equal(writes and 0 or 1, math.min(#record.results, 1), record.name)
    end
  end)

  it('says where each argument lies in its struct, none over another', function()
    local SIZE = { i32 = 4, u32 = 4, i64 = 8, f64 = 8, i64x2 = 16, meta = 8 + 8 * 8, sizes = 72,
      links = 8 + 24 * 16 }
    for _, record in ipairs(schema.records()) do
      local places = {}
      for _, arg in ipairs(record.args) do places[#places + 1] = { arg.offset, SIZE[arg.type] } end
      table.sort(places, function(a, b) return a[1] < b[1] end)
      for i, place in ipairs(places) do
        local next_place = places[i + 1] and places[i + 1][1] or record.args_bytes
        assert.is_true(place[1] + place[2] <= next_place, record.name)
      end
    end
  end)
end)

-- Records without kernels, and a call of each by its method.
local OTHERS = {
  view = { 'x input', 'shape', function(x) return x:view(3, -1) end },
  reshape = { 'x input', 'shape', function(x) return x:transpose(1, 2):reshape(6) end },
  permute = { 'x input', 'order', function(x) return x:permute(-1, 1) end },
  transpose = { 'x input', 'a = -2, b = -1', function(x) return x:transpose() end },
  narrow = { 'x input', 'axis, start, length, step = 1', function(x) return x:narrow(2, 2, 2) end },
  select = { 'x input', 'axis, index', function(x) return x:select(-1, 3) end },
  expand = { 'x input', 'shape', function(x) return x:view(2, 1, 3):expand(2, 4, 3) end },
  unsqueeze = { 'x input', 'axis', function(x) return x:unsqueeze(-1) end },
  squeeze = { 'x input', 'axis', function(x) return x:view(1, 6):squeeze(1) end },
  detach = { 'x input', '', function(x) return x:detach() end },
  as_strided = { 'x input', 'shape, stride, offset = 0' },
}

-- Records with a body, and a module that calls them.
local BODIES = {
  group_norm = { 'x input, weight weight?, bias bias?', 'eps = 1e-05, groups',
    function() return nn.GroupNorm(2, 4), ridge.randn(3, 4, 2) end },
  batch_norm = { 'x input, weight weight?, bias bias?, mean state, var state',
    'eps = 1e-05, momentum = 0.1, axis = 2, batch = false, keep = false',
    function() return nn.BatchNorm(4), ridge.randn(3, 4) end },
  sketched_conv2d = { 'x input, s weight, u weight, b bias?',
    'terms, stride = 1, dilation = 1, pad_low = 0, pad_high = 0, groups = 1, layout = nchw, '
    .. 'act = none', function() return nn.SKConv2d(4, 6, 3, { num_terms = 1, low_rank = 2 }),
      ridge.randn(1, 4, 5, 5) end },
  heads = { 'qkv input, mask bits?, omega input?',
    'p = 0, heads, kind = 0, causal = false, block = 0, kernel = 0',
    function() return nn.MultiHeadAttention(8, { heads = 2 }), ridge.randn(2, 3, 8) end },
  feature_attention = { 'q input, k input, v input, omega input', 'kernel = 0, causal = false',
    function()
      return nn.MultiHeadAttention(8, { heads = 2, kind = 'features' }), ridge.randn(2, 3, 8)
    end },
  recurrent = { 'x input, h input?, c input?, w weight, b bias?, wx weight?, bx bias?',
    'cell = 0, backwards = false',
    function() return nn.LSTM(3, 4), ridge.randn(2, 5, 3) end },
  recurrent_cell = { 'z input, h input, c input?, w weight, b bias?', 'cell = 0',
    function() return nn.GRU(3, 4), ridge.randn(2, 5, 3) end, 5 },
}
for name, body in pairs(BODIES) do OTHERS[name] = { body[1], body[2] } end

describe('a record without a kernel', function()
  local ring = require 'ridge.ring'
  local others = schema.others()  -- kept: a list that nobody holds is read again
  local by = {}
  for _, record in ipairs(others) do by[record.name] = record end

  for name, wanted in pairs(OTHERS) do
    it('says what it is given: ' .. name, function()
      local record = assert(by[name], 'there is no such record')
      assert.are.equal(wanted[1], inputs_text(record))
      assert.are.equal(wanted[2], arguments_text(record))
      assert.are.equal(BODIES[name] and 'compound' or 'view', record.runs)
      assert.are.same(record, schema.of(name))
    end)
  end

  it('is the same table for as long as its list is held', function()
    collectgarbage()
    assert.are.equal(others, schema.others())
    assert.are.equal(by.reshape, schema.of('reshape'))
  end)

  it('is written down here', function()
    for name in pairs(by) do assert.is_truthy(OTHERS[name], name) end
  end)

  -- The events of a call, as 'kind name shapes'.
  local function heard(f, x)
    local reader = ring.open('op view range', 64)
    f(x)
    local list = {}
    for event in reader:each() do
      list[#list + 1] = ('%s %s %s'):format(event.kind, event.name, event.shapes)
    end
    reader:close()
    return list
  end

  for name, wanted in pairs(OTHERS) do
    if wanted[3] and name ~= 'reshape' then
      it('is an event, once: ' .. name, function()
        local x, n = ridge.randn(2, 3), 0
        local y = wanted[3](x)
        local shape = 'f32[' .. table.concat(y.shape, ',') .. ']'
        for _, text in ipairs(heard(wanted[3], x)) do
          if text:find('view ' .. name .. ' ', 1, true) then
            n = n + 1
            assert.are.equal('-> ' .. shape, text:sub(-3 - #shape))
          end
        end
        assert.are.equal(1, n)
      end)
    end
  end

  for name, body in pairs(BODIES) do
    it('is a range that its body is in: ' .. name, function()
      local module, x = body[3]()
      local reader, ranges, inside = ring.open('op view range', 1024), {}, {}
      module(x)
      for event in reader:each() do
        if event.kind == 'range' and event.name == name then
          ranges[#ranges + 1] = event.serial
          assert.is_truthy(event.end_ns)
          assert.is_truthy(event.shapes:find('-> f32', 1, true), event.shapes)
        elseif event.kind == 'op' and event.parent == ranges[#ranges] then
          inside[#ranges] = (inside[#ranges] or 0) + 1
        end
      end
      reader:close()
      assert.are.equal(body[4] or 1, #ranges)
      assert.are.equal(#ranges, #inside) -- each has operations
    end)
  end

  it('is an event with a body where the strides allow no view', function()
    local x = ridge.randn(2, 3)
    assert.same({ 'view transpose f32[2,3] -> f32[3,2]', 'range reshape f32[3,2] -> f32[6]',
      'op copy f32[3,2] -> f32[3,2]', 'view view f32[3,2] -> f32[6]' }, heard(OTHERS.reshape[3], x))
    assert.same({ 'view reshape f32[2,3] -> f32[6]' }, heard(function() return x:reshape(6) end, x))
  end)
end)

describe('the dispatcher', function()
  local x = ridge.ones(2, 3)
  local SAMPLE = { f32 = x, i64 = x:to 'i64', bool = x:to 'bool', f8e4m3 = x:to 'f8e4m3' }

  -- a method and, where it has a second tensor, that one
  local TAKES = {
    softmax = 'f32', dropout = 'f32', norm = 'f32', sum = 'f32 i64 bool', argmax = 'f32 i64 bool',
    matmul = 'f32 i64', abs = 'f32 i64', exp = 'f32 i64 bool', svd = 'f32',
  }
  for name, takes in pairs(TAKES) do
    it('takes the types that the record names: ' .. name, function()
      for dtype, sample in pairs(SAMPLE) do
        local ok, err = pcall(function()
          return sample[name](sample, name == 'matmul' and sample:transpose(1, 2) or nil)
        end)
        local wanted = (' ' .. takes .. ' '):find(' ' .. dtype .. ' ', 1, true) ~= nil
        assert.are.equal(wanted, ok, name .. ' of ' .. dtype .. ': ' .. tostring(err))
        if not ok then assert.are.equal('EDTYPE', err.code, tostring(err)) end
      end
    end)
  end

  it('wants whole numbers as an index, and names it', function()
    local ok, err = pcall(function() return x:take(ridge.zeros(1)) end)
    assert.is_false(ok)
    assert.are.equal('take: index is f32[1], wanted whole numbers (i64, i32, i8, u8)', err.message)
  end)

  it('names the input of a wrong type', function()
    local ok, err = pcall(function() return ridge.ones(2, { dtype = 'i32' })
      :softmax() end)
    assert.is_false(ok)
    assert.are.equal('softmax: x is i32[2], wanted a float type', err.message)
  end)
end)

-- Wrong values for each kind of argument; what a kind takes is left out.
local WRONG = {
  number = { 'text', {}, true, print },
  share = { 'text', {}, true, -0.5, 1, 0 / 0 },
  whole = { 'text', {}, 0.5, 0 / 0, 2 ^ 60 },
  axis = { 'text', {}, 0, 7, -7, 1.5, 0 / 0, 2 ^ 40, math.huge },
  axes = { 'text', { 0 }, { 1, 1 }, 9, { 'a' }, 1.5, { 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
}

describe('a method made from a record', function()
  for _, record in ipairs(schema.records()) do
    local args = schema.named(record)
    if record.method and (#args > 0 or record.draws) and #record.inputs <= 1 then
      it('refuses wrong arguments at the line that gave them: ' .. record.name, function()
        local name = record.name .. (record.into and '_' or '')
        local tried = 0
        for i, arg in ipairs(args) do
          for _, wrong in ipairs(WRONG[arg.kind] or {}) do
            local x = ridge.ones(2, 3)
            local given = {}
            for j = 1, i - 1 do given[j] = args[j].default or 1 end
            if args[1].kind == 'axes' and i > 1 then given[1] = nil end
            given[i] = wrong
            local ok, err = pcall(function() return x[name](x, unpack(given, 1, i)) end)
            assert.is_false(ok, ('%s took %s for %s'):format(name, tostring(wrong), arg.name))
            assert.is_truthy(err.where and err.where:find 'schema_spec.lua', tostring(err))
            assert.is_truthy(tostring(err):find(record.name, 1, true), tostring(err))
            tried = tried + 1
          end
        end
        if record.draws then
          assert.has_error(function()
            local x = ridge.ones(2)
            return x[name](x, args[1].default, args[2] and args[2].default or 'text', 'text')
          end)
          tried = tried + 1
        end
        assert.is_true(tried > 0 or args[1].kind == 'flag')
      end)
    end
  end

  it('has its signature as help', function()
    local _, _, doc = method.make(by_name.softmax)
    assert.are.equal('softmax(axis = -1): exp(x), scaled to sum to one along an axis', doc)
    _, _, doc = method.make(by_name.uniform)
    assert.are.equal('uniform_(lo = 0, hi = 1, generator = nil): draws uniform in [lo, hi)', doc)
  end)

  it('takes a released tensor for none', function()
    local x = ridge.ones(2)
    x:release()
    for _, record in ipairs(schema.records()) do
      if record.method then
        local name = record.name .. (record.into and '_' or '')
        assert.has_error(function() return ridge.ones(1)[name](x, 1) end)
      end
    end
  end)

  it('is refused where no method takes such an argument', function()
    local record = { name = 'x', inputs = { {} }, args = { { name = 'layout', kind = 'layout' } },
                     results = { 'y' } }
    assert.has_error(function() method.text(record) end)
  end)
end)

-- Options of operations that take a table of them, by kind: what is refused.
local REFUSED = {
  number = { 'text', {}, true }, share = { 'text', -0.5, 1, 0 / 0 },
  part = { {}, -0.5, 1.5, 0 / 0 },
  from0 = { 'text', -1, math.huge, 0 / 0 }, whole = { 'text', {}, 0.5, 0 / 0, 2 ^ 60 },
  flag = { 'text', 1, {} }, act = { 'rel', 1 }, layout = { 'nchv', 1, {} },
  reduction = { 'means', 1 }, dtype = { 'f31', 1, {} },
}

describe('an options table made from a record', function()
  local optim = ridge.optim
  local image, weight = ridge.ones(1, 2, 4, 4), ridge.ones(2, 2, 3, 3)
  local bytes, one = ridge.ones(2, 2, { dtype = 'i8' }), ridge.ones(1)
  local scores, labels = ridge.ones(2, 3), ridge.zeros(2, { dtype = 'i64' })
  local ALL = {
    conv2d = { 'pad_low pad_high act', function(o) return image:conv2d(weight, o) end },
    max_pool2d = { 'size pad_low pad_high skip_pad',
      function(o) return image:max_pool2d(2, o) end },
    avg_pool2d = { 'size pad_low pad_high', function(o) return image:avg_pool2d(2, o) end },
    scaled_conv2d = { 'pad_low pad_high', function(o)
      return ridge.scaled_conv2d(image:to 'i8', weight:to 'i8', one, one, o)
    end },
    scaled_linear = { '', function(o) return ridge.scaled_linear(bytes, bytes, one, one, o) end },
    cross_entropy = { '', function(o) return nn.cross_entropy(scores, labels, o) end },
    sgd_step = { '', function(o) return optim.SGD(nn.Linear(2, 1), o) end },
    all_reduce = { '', function(o)
      return ridge.all_reduce_({ ridge.ones(2), ridge.ones(2) }, o)
    end },
    adam_step = { 'beta1 beta2 decoupled', function(o) return optim.Adam(nn.Linear(2, 1), o) end },
    lion_step = { 'beta1 beta2', function(o) return optim.Lion(nn.Linear(2, 1), o) end },
  }
  local AS = { act = 'activation', skip_pad = 'skip_padding' }

  for name, entry in pairs(ALL) do
    it('refuses wrong ones at the line that gave them: ' .. name, function()
      local left_out, f = ' ' .. entry[1] .. ' ', entry[2]
      f {} -- the defaults do
      local tried = 0
      for _, arg in ipairs(schema.named(by_name[name])) do
        local option = AS[arg.name] or arg.name
        if left_out:find(' ' .. arg.name .. ' ', 1, true) then
          assert.has_error(function() return f { [option] = arg.default or 1 } end)
        else
          if schema.default(arg) ~= nil and arg.name ~= 'stride' then
            f { [option] = schema.default(arg) }
          end
          for _, wrong in ipairs(assert(REFUSED[arg.kind], arg.kind)) do
            local ok, err = pcall(function() return f { [option] = wrong } end)
            assert.is_false(ok, ('%s took %s for %s'):format(name, tostring(wrong), option))
            assert.is_truthy(err.where and err.where:find 'schema_spec.lua', tostring(err))
            assert.is_truthy(err.message:find(option, 1, true), err.message)
            tried = tried + 1
          end
        end
      end
      assert.is_true(tried > 1)
    end)
  end

  it('has the types of C in its struct', function()
    for _, name in ipairs { 'max_pool2d', 'avg_pool2d' } do
      assert.same({ 1, 2, 1, 2 }, image[name](image, { 2, 3 }, { stride = { 3, 1 } }).shape)
    end
    assert.same({ 1, 4, 4, 2 }, ridge.ones(1, 4, 4, 2):conv2d(weight,
      { layout = 'nhwc', padding = 'same' }).shape)
    assert.same({ 1, 2, 1, 2 }, image:conv2d(weight, { stride = { 4, 1 }, groups = 1 }).shape)
    local function corner(skip) -- one pixel of four lies in the image
      return image:avg_pool2d(2, { padding = 1, skip_padding = skip }):get(1, 1, 1, 1)
    end
    assert.same({ 0.25, 0.25, 1 }, { corner(nil), corner(false), corner(true) })
  end)
end)

-- Operations as C calls them: by number, with inputs that may be fewer than those of the record.
describe('a call by number', function()
  local ffi = require 'ffi'
  local C = require 'ridge.ffi.lib'
  local ref = require 'ridge.ffi.ref'

  local facts = ffi.new 'rg_op_facts'
  local function index_of(name)
    for i = 0, C.rg_op_count() - 1 do
      assert.are.equal(0, C.rg_op_facts_of(i, facts))
      if ffi.string(facts.name) == name then return i end
    end
    error(name)
  end

  -- Status, tensor or message. given: tensors, or false for NULL; bytes: of the arguments, 0.
  local function run(index, given, bytes, fill)
    local list = ffi.new('const rg_tensor *[?]', #given + 1)
    for i, x in ipairs(given) do list[i - 1] = x and x._t or nil end
    local args = ffi.new('int64_t[?]', 64)
    if fill then fill(args) end
    local out = ffi.new 'rg_tensor *[8]'
    local st = C.rg_op_call(index, list, #given, bytes and args or nil, nil, out)
    local result = st == 0 and out[0] ~= nil and ref.wrap(out[0])
    return st, result or ffi.string(C.rg_error_message())
  end

  it('takes what is left out at the end for left out', function()
    local x = ridge.tensor { { 1, 3 }, { -2, 2 } }
    for _, given in ipairs { { x }, { x, false }, { x, false, false } } do
      local st, y = run(index_of 'layer_norm', given, 64)
      assert.are.equal(0, st, y)
      assert.same({ { -1, 1 }, { -1, 1 } }, y:tolist()) -- (x - mean) / deviation, eps 0
    end
    local st, text = run(index_of 'layer_norm', { x, false, false, x }, 64)
    assert.are_not.equal(0, st)
    assert.matches('4 tensors given, at most 3 wanted', text)
  end)

  -- Under the address sanitizer this is what finds a record that reads an input that is not there.
  it('answers with any number of inputs, of NULL too', function()
    local x = ridge.ones(2, 2)
    local calls = 0
    for index = 0, C.rg_record_count() - 1 do
      assert.are.equal(0, C.rg_op_facts_of(index, facts))
      local name, inputs = ffi.string(facts.name), facts.n_inputs
      for n = 0, inputs + 2 do
        for kind = 1, 3 do -- all there, none, the first alone
          local given = {}
          for i = 1, n do given[i] = kind == 1 and x or kind == 3 and i == 1 and x or false end
          local needed = n > 0 and kind == 2 and inputs > 0 and not facts.input[0].optional
          local st, text = run(index, given, 64)
          if needed then assert.are_not.equal(0, st, name) end
          if st ~= 0 then assert.is_true(#text > 0, name) end
          calls = calls + 1
        end
      end
    end
    assert.is_true(calls > 500)
  end)

  it('checks arguments by their kinds', function()
    local cross, x = index_of 'cross_entropy', ridge.ones(2, 3)
    local labels = ridge.zeros(2, { dtype = 'i64' })
    local function loss(smoothing, reduction)
      local st, y = run(cross, { x, labels }, 24, function(args)
        ffi.cast('double *', args)[1] = smoothing
        ffi.cast('int32_t *', args)[4] = reduction
      end)
      return st == 0 and 'taken' or y
    end
    assert.equal('taken', loss(0, 0))
    assert.equal('taken', loss(1, 2))
    for _, wrong in ipairs { -0.5, 1.5, 0 / 0 } do
      assert.matches('smoothing is .* and not in %[0, 1%]', loss(wrong, 0))
    end
    assert.matches('there is no reduction 3', loss(0, 3))
    assert.matches('there is no reduction %-1', loss(0, -1))
    local steps = ffi.new 'rg_step_inputs'
    local list, numbers = ffi.new 'rg_tensor *[1]', ridge.zeros(1, { dtype = 'f64' })
    list[0] = x._t
    steps.n, steps.param, steps.grad = 1, list, ffi.cast('const rg_tensor *const *', list)
    steps.state[0], steps.state[1] = list, list
    steps.rate, steps.count = numbers._t, numbers._t
    for field, text in pairs { beta1 = 'beta1 is 1 and not in %[0, 1%)', beta2 = 'beta2 is 1',
                               eps = 'a number from 0' } do
      local o = ffi.new('rg_adam_options', { 0.5, 0.5, 1, 0, 0, 0 })
      o[field] = field == 'eps' and -1 or 1
      assert.are_not.equal(0, C.rg_adam_step(steps, o))
      assert.matches(text, ffi.string(C.rg_error_message()))
    end
  end)

  it('refuses numbers of no operation, no list and no arguments', function()
    local x = ridge.ones(2)
    for _, index in ipairs { -1, C.rg_record_count(), 2 ^ 31 - 1, -2 ^ 31 } do
      local st, text = run(index, { x }, 64)
      assert.are_not.equal(0, st)
      assert.matches('there is no operation', text)
    end
    local out = ffi.new 'rg_tensor *[8]'
    local cumsum, args = index_of 'cumsum', ffi.new 'int64_t[8]'
    assert.are_not.equal(0, C.rg_op_call(cumsum, nil, 1, args, nil, out))
    assert.are_not.equal(0, C.rg_op_call(cumsum, nil, -1, args, nil, out))
    assert.are_not.equal(0, (run(cumsum, {}, 64)))
    local st, text = run(cumsum, { x }, nil)
    assert.is_true(st ~= 0 and text:find 'cumsum: there are no arguments' ~= nil)
    for _, axis in ipairs { 1, -2, 2 ^ 31 - 1, -2 ^ 31 } do
      st, text = run(cumsum, { x }, 64, function(a) ffi.cast('int32_t *', a)[0] = axis end)
      assert.is_true(st ~= 0 and text:find 'axis' ~= nil)
    end
  end)
end)
