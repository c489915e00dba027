-- SPDX-License-Identifier: MIT
-- cases_train: sample inputs for operations of training; see cases.lua for what an entry holds.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EARG = -1, -2, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors
  local FLOATS = tensors.FLOATS
  local C = tensors.C

  -- Kept, because a plan refuses numbers from the host, and made before anything is counted.
  local kept = {}
  local function constant(list, shape, dtype)
    local key = dtype .. table.concat(shape, ',') .. ':' .. table.concat(list, ',')
    if not kept[key] then
      kept[key] = tensors.constant(list, shape, dtype)
    end
    return kept[key]
  end

  -- -- Cross entropy ------------------------------------------------------------------------------

  local function options(a)
    return ffi.new('rg_cross_entropy_options', { a.ignore or -1, a.smoothing or 0,
      a.reduction or 0, 0 })
  end

  local function labels_of(a) return constant(a.labels, a.rows, a.type or 'i64') end

  local function weight_of(a)
    return a.weight and constant(a.weight, { #a.weight }, a.weight_type or 'f32') or nil
  end

  -- Labels 0, 7, 14, ... modulo the classes.
  local function labels(n, classes)
    local list = {}
    for i = 1, n do list[i] = (i - 1) * 7 % classes end
    return list
  end

  local scores = {
    { { 3, 5 }, args = { labels = { 0, 4, 2 }, rows = { 3 } } },
    { { 7 }, args = { labels = { 6 }, rows = {}, type = 'i32' } },
    { { 2, 3, 4 }, args = { labels = { 0, 1, 2, 3, 0, 1 }, rows = { 2, 3 }, reduction = 1,
      type = 'u8' } },
    { { 4, 3 }, args = { labels = { 2, -1, 0, 1 }, rows = { 4 }, reduction = 2, type = 'i8' } },
    { { 4, 3 }, args = { labels = { 2, 1, 0, 1 }, rows = { 4 }, ignore = 1,
      weight = { 0.5, 2, 1.25 } } },
    { { 3, 4 }, args = { labels = { 3, 0, 1 }, rows = { 3 }, smoothing = 0.1,
      weight = { 1, 0.5, 2, 0 }, weight_type = 'f64' } },
    { { 2, 1100 }, args = { labels = { 1099, 600 }, rows = { 2 }, smoothing = 0.25 } },
    { { 0, 5 }, args = { labels = {}, rows = { 0 }, reduction = 1 } },
    { { 40, 10 }, args = { labels = labels(40, 10), rows = { 40 } } },
    { { 20, 1000 }, args = { labels = labels(20, 1000), rows = { 20 } } }, -- several pieces
    -- in packs: some, with ends, of rows that begin anywhere, and many
    { { 2, 48 }, args = { labels = { 47, 0 }, rows = { 2 } } },
    { { 3, 45 }, args = { labels = { 44, 2, 0 }, rows = { 3 }, smoothing = 0.125 } },
    { { 2, 8193 }, args = { labels = { 8192, 0 }, rows = { 2 } } },
    -- rows that do not count, with smoothing; numbers at the end of the range
    { { 4, 40 }, args = { labels = { 2, -1, 39, -1 }, rows = { 4 }, smoothing = 0.25,
      weight = { unpack(labels(40, 5)) } } },
    { { 6, 48 }, args = { labels = { 47, 47, 5, 0, 1, 7 }, rows = { 6 }, reduction = 2,
      unusual = true } },
  }

  local INF = math.huge
  -- -inf in whole packs, everywhere but in one place, everywhere; inf; nan; -inf at the label
  local function unusual_scores(list, sample)
    for row = 0, sample.args.unusual and 5 or -1 do
      for c = 0, 47 do
        local at = row * 48 + c + 1
        if row == 0 and c < 17 or row == 1 and c < 47 or row == 2 or row == 5 and c == 7 then
          list[1][at] = -INF
        elseif row == 3 and c == 20 then
          list[1][at] = INF
        elseif row == 4 and c == 33 then
          list[1][at] = 0 / 0
        end
      end
    end
  end
  local large = { { 30000, 40 }, args = { labels = labels(30000, 40), rows = { 30000 } } }

  local function bad_list(first)
    local function arguments(more)
      local a = { labels = { 0, 1 }, rows = { 2 } }
      for k, v in pairs(more) do a[k] = v end
      return a
    end
    local list = {}
    for i, each in ipairs {
      { { { 2, 3 } }, 'f32', { labels = { 0, 1, 2 }, rows = { 3 } }, ESHAPE },
      { { {} }, 'f32', {}, ESHAPE },
      { { { 2, 3 } }, 'i32', {}, EDTYPE },
      { { { 2, 3 } }, 'f32', { type = 'f32' }, EDTYPE },
      { { { 2, 3 } }, 'f32', { labels = { 0, 3 } }, EARG },
      { { { 2, 3 } }, 'f32', { labels = { -2, 1 } }, EARG },
      { { { 2, 3 } }, 'f32', { weight = { 1, 2 } }, ESHAPE },
      { { { 2, 3 } }, 'f32', { smoothing = 1.5 }, EARG },
      { { { 2, 3 } }, 'f32', { smoothing = 0 / 0 }, EARG },
      { { { 2, 3 } }, 'f32', { reduction = 3 }, EARG },
    } do
      list[i] = first(each[1][1], each[2], arguments(each[3]), each[4])
    end
    return list
  end

  cases.cross_entropy = {
    call = function(_, t, a, out)
      return C.rg_cross_entropy(t[1], labels_of(a), weight_of(a), options(a), out)
    end,
    reference = reference.cross_entropy,
    prepare = unusual_scores,
    samples = scores,
    dtypes = FLOATS, ulps = 8,
    large = { large },
    bad = bad_list(function(shape, dtype, a, status)
      return { { shape }, { dtype }, a, status }
    end),
  }

  local back = {}
  for i, sample in ipairs(scores) do
    local a = { total = 2.5 }
    for k, v in pairs(sample.args) do a[k] = v end
    back[i] = { a.reduction == 2 and a.rows or {}, sample[1], a.rows, args = a }
  end
  local large_back = { {}, large[1], large.args.rows,
    args = { labels = large.args.labels, rows = large.args.rows, total = 30000 } }

  cases.cross_entropy_back = {
    call = function(_, t, a, out)
      local wide = t[2] ~= ffi.NULL and t[2]._dtype == C.RG_F64
      local total = constant({ a.total or 1 }, { 1 }, wide and 'f64' or 'f32')
      return C.rg_cross_entropy_back(t[1], t[2], labels_of(a), t[3], total, weight_of(a),
        options(a), out)
    end,
    reference = reference.cross_entropy_back,
    samples = back,
    dtypes = { 'f32', 'f64' }, ulps = 8,
    mixed = { { 'bf16', 'bf16', 'f32' }, { 'f32', 'f16', 'f32' } },
    large = { large_back },
    bad = bad_list(function(shape, dtype, a, status)
      return { { {}, shape, a.rows }, { 'f32', dtype, 'f32' }, a, status }
    end),
  }
  cases.cross_entropy_back.bad[11] = { { { 3 }, { 2, 3 }, { 2 } }, { 'f32', 'f32', 'f32' },
    { labels = { 0, 1 }, rows = { 2 } }, ESHAPE }
  cases.cross_entropy_back.bad[12] = { { {}, { 2, 3 }, { 3 } }, { 'f32', 'f32', 'f32' },
    { labels = { 0, 1 }, rows = { 2 } }, ESHAPE }
  for _, list in ipairs { scores, { large }, back, { large_back }, } do
    for _, sample in ipairs(list) do
      labels_of(sample.args)
      weight_of(sample.args)
      for _, dtype in ipairs { 'f32', 'f64' } do
        constant({ sample.args.total or 1 }, { 1 }, dtype)
      end
    end
  end
  for _, name in ipairs { 'cross_entropy', 'cross_entropy_back' } do
    for _, bad in ipairs(cases[name].bad) do
      labels_of(bad[3])
      weight_of(bad[3])
    end
  end

  -- -- Gathering rows by index --------------------------------------------------------------------

  local function index_of(a) return constant(a.index, a.shape, a.type or 'i64') end
  local many = {}
  for i = 1, 60000 do many[i] = i * 7 % 300 end
  -- more than are looked at where they are: number 3 very often, others seldom or never
  local some, bad_some, far_some = {}, {}, {}
  for i = 1, 300 do some[i] = i % 3 == 0 and 3 or i * i % 41 end
  for i = 1, 300 do bad_some[i] = i == 299 and -1 or some[i] end
  for i = 1, 300 do far_some[i] = i == 299 and 2 ^ 45 or some[i] end

  cases.take = {
    call = function(_, t, a, out) return C.rg_take(t[1], index_of(a), out) end,
    reference = reference.take,
    samples = {
      { { 5, 3 }, args = { index = { 4, 0, 0, 2 }, shape = { 4 } } },
      { { 3, 2, 2 }, args = { index = { 2 }, shape = {}, type = 'i32' } },
      { { 4 }, args = { index = { 3, 1, 0, 2, 3, 3 }, shape = { 2, 3 }, type = 'u8' } },
      { { 2, 700 }, args = { index = { 1, 0, 1 }, shape = { 3, 1 }, type = 'i8' } },
      -- pieces of 16, 8, 4 and 2 bytes
      { { 4, 32 }, args = { index = { 3, 0, 3 }, shape = { 3 } } },
      { { 3, 2, 20 }, args = { index = { 2, 2, 1 }, shape = { 3 } } },
      { { 5, 6 }, args = { index = { 1, 4, 0, 2, 3 }, shape = { 5 } } },
      { { 3, 0 }, args = { index = { 1 }, shape = { 1 } } },
      { { 3, 2 }, args = { index = {}, shape = { 0 } } },
      { { 300, 1 }, args = { index = many, shape = { 60000 } }, only = 'f32' },
    },
    dtypes = tensors.EVERY, ulps = 0,
    large = { { { 300, 20 }, args = { index = many, shape = { 60000 } } } },
    bad = {
      { { { 3, 2 } }, { 'f32' }, { index = { 3 }, shape = { 1 } }, EARG },
      { { { 3, 2 } }, { 'f32' }, { index = { 0, -1 }, shape = { 2 } }, EARG },
      { { { 3, 2 } }, { 'f32' }, { index = { 0 }, shape = { 1 }, type = 'f32' }, EDTYPE },
      { { { 3, 2 } }, { 'f32' }, { index = { 0 }, shape = { 1 }, type = 'f8e4m3' }, EDTYPE },
      { { {} }, { 'f32' }, { index = { 0 }, shape = { 1 } }, ESHAPE },
    },
  }

  cases.take_back = {
    call = function(_, t, a, out) return C.rg_take_back(t[1], index_of(a), a.rows, out) end,
    reference = reference.take_back,
    samples = {
      { { 4, 3 }, args = { index = { 4, 0, 0, 2 }, shape = { 4 }, rows = 5 } },
      { { 2, 2 }, args = { index = { 2 }, shape = {}, rows = 3, type = 'i32' } },
      { { 2, 3 }, args = { index = { 3, 1, 0, 3, 3, 3 }, shape = { 2, 3 }, rows = 4,
        type = 'u8' } },
      { { 3, 1, 700 }, args = { index = { 1, 0, 1 }, shape = { 3, 1 }, rows = 2, type = 'i8' } },
      { { 4, 264 }, args = { index = { 1, 5, 1, 0 }, shape = { 4 }, rows = 6 } },
      { { 4, 40 }, args = { index = { 1, 0, 1, 0 }, shape = { 4 }, rows = 3 } },
      { { 300, 3 }, args = { index = some, shape = { 300 }, rows = 43 } },
      { { 300, 3 }, args = { index = some, shape = { 300 }, rows = 41 } }, -- the last one, too
      { { 300, 8 }, args = { index = some, shape = { 300 }, rows = 3000, type = 'i32' } },
      { { 0, 2 }, args = { index = {}, shape = { 0 }, rows = 3 } },
      { { 1, 0 }, args = { index = { 1 }, shape = { 1 }, rows = 3 } },
    },
    dtypes = FLOATS, ulps = 2,
    large = { { { 60000, 20 }, args = { index = many, shape = { 60000 }, rows = 300 } } },
    bad = {
      { { { 1, 2 } }, { 'f32' }, { index = { 3 }, shape = { 1 }, rows = 3 }, EARG },
      { { { 1, 0 } }, { 'f32' }, { index = { 3 }, shape = { 1 }, rows = 3 }, EARG },
      { { { 300, 2 } }, { 'f32' }, { index = some, shape = { 300 }, rows = 40 }, EARG },
      { { { 300, 2 } }, { 'f32' }, { index = bad_some, shape = { 300 }, rows = 41 }, EARG },
      { { { 300, 2 } }, { 'f32' }, { index = bad_some, shape = { 300 }, rows = 3000 }, EARG },
      { { { 300, 2 } }, { 'f32' }, { index = far_some, shape = { 300 }, rows = 3000 }, EARG },
      { { { 2, 2 } }, { 'f32' }, { index = { 0 }, shape = { 1 }, rows = 3 }, ESHAPE },
      { { { 1, 2 } }, { 'i32' }, { index = { 0 }, shape = { 1 }, rows = 3 }, EDTYPE },
      { { { 1, 2 } }, { 'f32' }, { index = { 0 }, shape = { 1 }, rows = -1 }, EARG },
    },
  }
  for _, name in ipairs { 'take', 'take_back' } do
    for _, sample in ipairs(cases[name].samples) do index_of(sample.args) end
    for _, bad in ipairs(cases[name].bad) do index_of(bad[3]) end
    index_of(cases[name].large[1].args)
  end

  -- -- Steps ------------------------------------------------------------------------------------

  local OPTIONS = {
    sgd_step = function(a)
      return ffi.new('rg_sgd_options', { a.momentum, a.dampening, a.weight_decay,
        a.nesterov and 1 or 0, 0 })
    end,
    adam_step = function(a)
      return ffi.new('rg_adam_options', { a.beta1, a.beta2, a.eps, a.weight_decay,
        a.decoupled and 1 or 0, a.amsgrad and 1 or 0 })
    end,
    lion_step = function(a)
      return ffi.new('rg_lion_options', { a.beta1, a.beta2, a.weight_decay })
    end,
  }
  local slot = ffi.new('rg_tensor *[1]')

  -- Parameters alike, copies of the first input with copies of the states: the call may be made
  -- again.  There are two, or args.many, which then are the rows of one tensor and so begin
  -- anywhere in memory.  The results are those of the second, or args.pick.  Second moments are
  -- squares.
  local function step_call(name)
    return function(_, t, a, out)
      local made, status = {}, 0
      local n = a.many or 2
      local function took(result)
        status = result
        if status == 0 then made[#made + 1] = slot[0] end
        return status == 0 and slot[0] or nil
      end
      local function copy(x) return status == 0 and took(C.rg_clone(x, slot)) or nil end
      local function copies(x)
        local list, all = ffi.new('rg_tensor *[?]', n), nil
        if a.many then
          local shape = ffi.new('int64_t[2]', { n, tonumber(x._count) })
          local wide = status == 0 and took(C.rg_expand(x, shape, 2, slot))
          all = copy(wide)
        end
        for i = 0, n - 1 do
          if not a.many then
            list[i] = copy(x)
          elseif status == 0 then
            list[i] = took(C.rg_narrow(all, 0, i, 1, 1, slot))
          end
        end
        return list
      end
      local lists = {}
      for i, x in ipairs(t) do
        if i ~= 2 then
          local list = copies(x)
          for k = 0, i > 3 and n - 1 or -1 do
            if status == 0 then status = C.rg_square_(list[k]) end
          end
          lists[#lists + 1] = list
        end
      end
      local count = copy(constant({ a.count }, { 1 }, 'f64'))
      if status == 0 then
        local inputs = ffi.new('rg_step_inputs')
        local grads = ffi.new('const rg_tensor *[?]', n)
        for i = 0, n - 1 do grads[i] = t[2] end
        inputs.n, inputs.param, inputs.grad = n, lists[1], grads
        for k = 0, 2 do inputs.state[k] = lists[k + 2] end
        if a.plain then inputs.state[0] = nil end
        inputs.rate, inputs.count = constant({ a.rate }, {}, 'f32'), count
        inputs.scale = a.scale and constant({ a.scale }, {}, 'f64') or nil
        status = C['rg_' .. name](inputs, OPTIONS[name](a))
      end
      if status == 0 then
        local results = { lists[1][a.pick or 1], lists[2][a.pick or 1] }
        if name == 'adam_step' then results[3] = lists[a.amsgrad and 4 or 3][a.pick or 1] end
        for i, x in ipairs(results) do out[i - 1] = C.rg_tensor_retain(x) end
      end
      for _, x in ipairs(made) do C.rg_tensor_release(x) end
      return status
    end
  end

  local function merged(base, more)
    local all = {}
    for k, v in pairs(base) do all[k] = v end
    for k, v in pairs(more) do all[k] = v end
    return all
  end

  -- The arguments in every shape; the numbers are exact in f32.
  local function step_samples(inputs, base, variants)
    local list = {}
    local function add(shape, more)
      local sample = { args = merged(base, more) }
      for i = 1, more.amsgrad and inputs + 1 or inputs do sample[i] = shape end
      list[#list + 1] = sample
    end
    for _, more in ipairs(variants) do add({ 5, 7 }, more) end
    for _, shape in ipairs { {}, { 20000 }, { 2, 3, 5 }, { 0 } } do add(shape, {}) end
    for _, pick in ipairs { 0, 63, 64, 66 } do add({ 1, 35 }, { many = 67, pick = pick }) end
    return list
  end

  local function add_step(name, inputs, base, variants, wrong)
    local two = { { 3 }, { 3 }, { 3 }, { 3 } }
    local same = { 'f32', 'f32', 'f32', 'f32' }
    local bad = {
      { { { 3 }, { 4 }, { 3 }, { 3 } }, same, base, ESHAPE },
      { { { 3 }, { 3 }, { 4 }, { 3 } }, same, base, ESHAPE },
      { two, { 'i32', 'f32', 'f32', 'f32' }, base, EDTYPE },
      { two, { 'f32', 'f64', 'f32', 'f32' }, base, EDTYPE },
      { two, { 'f32', 'f32', 'f64', 'f32' }, base, EDTYPE },
    }
    for _, more in ipairs(wrong) do bad[#bad + 1] = { two, same, merged(base, more), EARG } end
    for _, each in ipairs(bad) do
      each[1] = { unpack(each[1], 1, inputs) }
      each[2] = { unpack(each[2], 1, inputs) }
    end
    local wide = { args = base }
    for i = 1, inputs do wide[i] = { 300, 1000 } end
    cases[name] = {
      call = step_call(name), n_out = name == 'adam_step' and 3 or 2,
      reference = reference[name],
      samples = step_samples(inputs, base, variants),
      dtypes = { 'f32', 'f64' }, ulps = 8,
      -- half parameters and gradients keep their states in f32
      mixed = { { 'bf16', 'bf16', 'f32', 'f32', 'f32' }, { 'f16', 'f32', 'f32', 'f32', 'f32' } },
      large = { wide },
      bad = bad,
    }
    for _, sample in ipairs(cases[name].samples) do
      local a = sample.args
      constant({ a.rate }, {}, 'f32')
      constant({ a.count }, { 1 }, 'f64')
      if a.scale then constant({ a.scale }, {}, 'f64') end
    end
  end

  add_step('sgd_step', 3,
    { rate = 0.125, count = 4, momentum = 0.5, dampening = 0, weight_decay = 0 },
    { {}, { count = 0 }, { nesterov = true }, { weight_decay = 0.25, dampening = 0.25 },
      { nesterov = true, weight_decay = 0.25, scale = 0.5 },
      { nesterov = true, weight_decay = 0.25, count = 0 }, { momentum = 0, weight_decay = 0.25 },
      { count = 0, dampening = 0.5 }, { scale = 0.5 }, { scale = 0 / 0 } },
    { { momentum = 1 }, { momentum = -0.5 }, { weight_decay = -1 }, { plain = true } })
  add_step('adam_step', 4,
    { rate = 0.125, count = 4, beta1 = 0.875, beta2 = 0.75, eps = 0.0625, weight_decay = 0 },
    { {}, { count = 0 }, { weight_decay = 0.25 }, { weight_decay = 0.25, decoupled = true },
      { amsgrad = true }, { amsgrad = true, weight_decay = 0.25, scale = 0.5 },
      { amsgrad = true, weight_decay = 0.25, decoupled = true }, { scale = 0.5 },
      { scale = math.huge } },
    { { beta1 = 1 }, { beta2 = -0.1 }, { eps = -1 }, { weight_decay = 0 / 0 } })
  add_step('lion_step', 3,
    { rate = 0.125, count = 4, beta1 = 0.875, beta2 = 0.75, weight_decay = 0 },
    { {}, { weight_decay = 0.25 }, { weight_decay = 0.25, scale = 0.5 }, { scale = -2 },
      { scale = 0 / 0 } },
    { { beta1 = 1 }, { weight_decay = -1 }, { plain = true } })

  local function many_vectors(n)
    local list = {}
    for i = 1, n do list[i] = { i % 9 + 1 } end
    return list
  end

  cases.total_norm = {
    call = function(_, t, _, out)
      local n = #t
      return C.rg_total_norm(ffi.new('const rg_tensor *[?]', math.max(n, 1), t), n, out)
    end,
    reference = reference.total_norm,
    samples = { { { 5 } }, { { 3, 4 }, { 7 } }, { { 0 }, { 2 } }, { {}, { 40, 50 }, { 3 } },
      { { 17000 }, { 3 } }, many_vectors(170) },
    dtypes = FLOATS, ulps = 8,
    mixed = { { 'f32', 'bf16', 'f64' } },
    large = { { { 300, 1000 }, { 70000 } } },
    bad = { { { { 3 }, { 2 } }, { 'f32', 'i32' }, {}, EDTYPE } },
  }

  -- Of copies: the first and the last replica behind it.
  cases.all_reduce = {
    call = function(_, t, a, out)
      local n, status, list = #t, 0, ffi.new('rg_tensor *[?]', math.max(#t, 1))
      for i = 1, n do
        status = status == 0 and C.rg_clone(t[i], slot) or status
        list[i - 1] = status == 0 and slot[0] or nil
      end
      status = status == 0 and C.rg_all_reduce_(list, n,
        ffi.new('rg_all_reduce_options', { a.mean and 1 or 0 })) or status
      for i, at in ipairs { 0, n - 1 } do
        if status == 0 then out[i - 1] = C.rg_tensor_retain(list[at]) end
      end
      for i = 0, n - 1 do C.rg_tensor_release(list[i]) end
      return status
    end, n_out = 2,
    reference = reference.all_reduce,
    samples = { { { 3, 4 }, { 3, 4 }, args = {} }, { { 5 }, args = {} },
      { { 3, 4 }, { 3, 4 }, { 3, 4 }, args = { mean = true } }, { {}, {}, args = {} },
      { { 0 }, { 0 }, args = { mean = true } }, { { 17001 }, { 17001 }, args = { mean = true } },
      { { 516 }, { 516 }, args = {} } },
    dtypes = FLOATS, ulps = 2,
    large = { { { 300, 1000 }, { 300, 1000 }, args = {} } },
    bad = { { { { 3 }, { 2 } }, { 'f32', 'f32' }, {}, ESHAPE },
      { { { 3 }, { 3 } }, { 'f32', 'f64' }, {}, EDTYPE },
      { { { 3 }, { 3 } }, { 'i32', 'i32' }, {}, EDTYPE } },
  }

  -- -- Normalisation ------------------------------------------------------------------------------

  cases.layer_norm = {
    call = function(_, t, a, out)
      return C.rg_layer_norm(t[1], t[2] or nil, t[3] or nil, a.eps, a.rms and 1 or 0, out)
    end,
    reference = reference.layer_norm,
    samples = {
      { { 3, 5 }, { 5 }, { 5 }, args = { eps = 0.25 } },
      { { 2, 3, 7 }, { 7 }, false, args = { eps = 0.25, rms = true } },
      { { 7 }, false, false, args = { eps = 0.25 } },
      { { 2, 1300 }, { 1300 }, { 1300 }, args = { eps = 0.25 } },
      { { 2, 64 }, false, { 64 }, args = { eps = 0.25, rms = true } },
      { { 0, 4 }, { 4 }, { 4 }, args = { eps = 0 } },
      { { 40, 33 }, { 33 }, { 33 }, args = { eps = 0.25 } },
      { { 430, 40 }, { 40 }, { 40 }, args = { eps = 0.25 }, only = 'f32' },
      { { 3, 72 }, { 72 }, { 72 }, args = { eps = 0.25 } },
      { { 2, 1304 }, { 1304 }, false, args = { eps = 0.25 } },
      { { 2, 8200 }, { 8200 }, { 8200 }, args = { eps = 0.25 } },
      { { 1, 8208 }, false, { 8208 }, args = { eps = 0.25, rms = true } },
      -- several rows for each team of a GPU
      { { 300, 72 }, { 72 }, false, args = { eps = 0.25, rms = true }, only = 'bf16' },
      { { 150, 520 }, { 520 }, { 520 }, args = { eps = 0.25 }, only = 'bf16' },
      { { 70, 1304 }, { 1304 }, { 1304 }, args = { eps = 0.25, rms = true }, only = 'bf16' },
      { { 20, 4104 }, { 4104 }, { 4104 }, args = { eps = 0.25 }, only = 'f32' },
    },
    dtypes = FLOATS, ulps = 16, optional = { [2] = true, [3] = true },
    mixed = { { 'bf16', 'f32', 'f32' }, { 'f32', 'f64', 'f16' }, { 'f64', 'f32', 'bf16' } },
    large = { { { 3000, 200 }, { 200 }, { 200 }, args = { eps = 1e-5 } } },
    bad = {
      { { { 2, 3 }, { 4 } }, { 'f32', 'f32' }, { eps = 0 }, ESHAPE },
      { { { 2, 3 }, { 3 }, { 1, 3 } }, { 'f32', 'f32', 'f32' }, { eps = 0 }, ESHAPE },
      { { {} }, { 'f32' }, { eps = 0 }, ESHAPE },
      { { { 2, 0 } }, { 'f32' }, { eps = 0 }, ESHAPE },
      { { { 2, 3 } }, { 'i32' }, { eps = 0 }, EDTYPE },
      { { { 2, 3 }, { 3 } }, { 'f32', 'i32' }, { eps = 0 }, EDTYPE },
      { { { 2, 3 } }, { 'f32' }, { eps = -1 }, EARG },
    },
  }

  local three = ffi.new('rg_tensor *[3]')
  cases.layer_norm_back = {
    call = function(_, t, a, out)
      local status = C.rg_layer_norm_back(t[1], t[2], t[3] or nil, t[4], t[5], a.rms and 1 or 0,
        three, three + 1, three + 2)
      if status == 0 then out[0], out[1], out[2] = three[0], three[1], three[2] end
      return status
    end,
    n_out = 3,
    reference = reference.layer_norm_back,
    samples = {
      { { 3, 5 }, { 3, 5 }, { 5 }, { 3 }, { 3 }, args = {} },
      { { 2, 3, 7 }, { 2, 3, 7 }, { 7 }, { 2, 3 }, { 2, 3 }, args = { rms = true } },
      { { 7 }, { 7 }, false, {}, {}, args = {} },
      { { 2, 1300 }, { 2, 1300 }, { 1300 }, { 2 }, { 2 }, args = {} },
      { { 0, 4 }, { 0, 4 }, { 4 }, { 0 }, { 0 }, args = {} },
      { { 300, 3 }, { 300, 3 }, { 3 }, { 300 }, { 300 }, args = {} },
      { { 430, 40 }, { 430, 40 }, { 40 }, { 430 }, { 430 }, args = {}, only = 'f32' },
      { { 3, 72 }, { 3, 72 }, { 72 }, { 3 }, { 3 }, args = {} },
      { { 2, 640 }, { 2, 640 }, { 640 }, { 2 }, { 2 }, args = { rms = true } },
      { { 2, 4104 }, { 2, 4104 }, { 4104 }, { 2 }, { 2 }, args = {} },
      { { 1, 4112 }, { 1, 4112 }, false, { 1 }, { 1 }, args = { rms = true } },
      -- several rows for each team of a GPU, several teams for each part of the sums, and one
      { { 21, 1304 }, { 21, 1304 }, { 1304 }, { 21 }, { 21 }, args = {} },
      { { 100, 72 }, { 100, 72 }, { 72 }, { 100 }, { 100 }, args = { rms = true }, only = 'bf16' },
      { { 11, 4104 }, { 11, 4104 }, { 4104 }, { 11 }, { 11 }, args = {}, only = 'bf16' },
    },
    dtypes = { 'f32', 'f64' }, ulps = 16, optional = { [3] = true },
    mixed = { { 'bf16', 'bf16', 'f32', 'f32', 'f32' }, { 'f32', 'f16', 'bf16', 'f32', 'f32' },
      { 'bf16', 'bf16', 'bf16', 'f32', 'f32' }, { 'f32', 'f16', 'f32', 'f32', 'f32' } },
    large = { { { 3000, 200 }, { 3000, 200 }, { 200 }, { 3000 }, { 3000 }, args = {} } },
    bad = {
      { { { 2, 3 }, { 2, 4 }, { 4 }, { 2 }, { 2 } }, { 'f32', 'f32', 'f32', 'f32', 'f32' }, {},
        ESHAPE },
      { { { 2, 3 }, { 2, 3 }, { 4 }, { 2 }, { 2 } }, { 'f32', 'f32', 'f32', 'f32', 'f32' }, {},
        ESHAPE },
      { { { 2, 3 }, { 2, 3 }, { 3 }, { 3 }, { 2 } }, { 'f32', 'f32', 'f32', 'f32', 'f32' }, {},
        ESHAPE },
      { { { 2, 3 }, { 2, 3 }, { 3 }, { 2 }, { 2 } }, { 'f32', 'f32', 'f32', 'f64', 'f32' }, {},
        ESHAPE },
    },
  }

  -- -- Activations --------------------------------------------------------------------------------

  local slopes = {}
  for act = 1, 6 do
    slopes[#slopes + 1] = { { 4, 5 }, { 4, 5 }, args = { act = act } }
    slopes[#slopes + 1] = { { 2, 650 }, { 2, 650 }, args = { act = act } }
  end
  slopes[#slopes + 1] = { {}, {}, args = { act = 2 } }
  slopes[#slopes + 1] = { { 0, 3 }, { 0, 3 }, args = { act = 1 } }

  cases.act_back = {
    call = function(_, t, a, out) return C.rg_act_back(t[1], t[2], a.act, out) end,
    reference = reference.act_back,
    samples = slopes,
    dtypes = FLOATS, ulps = 8,
    mixed = { { 'f32', 'bf16' }, { 'f16', 'bf16' }, { 'f64', 'f32' } },
    large = { { { 1100, 1000 }, { 1100, 1000 }, args = { act = 2 } } },
    bad = { { { { 2, 3 }, { 3 } }, { 'f32', 'f32' }, { act = 1 }, ESHAPE },
      { { { 2 }, { 2 } }, { 'f32', 'i32' }, { act = 1 }, EDTYPE },
      { { { 2 }, { 2 } }, { 'f32', 'f32' }, { act = 0 }, EARG },
      { { { 2 }, { 2 } }, { 'f32', 'f32' }, { act = 7 }, EARG } },
  }

  cases.softmax_back = {
    call = function(_, t, a, out) return C.rg_softmax_back(t[1], t[2], a.axis, out) end,
    reference = reference.softmax_back,
    samples = {
      { { 3, 5 }, { 3, 5 }, args = { axis = -1 } }, { { 3, 5 }, { 3, 5 }, args = { axis = 0 } },
      { { 2, 4, 3 }, { 2, 4, 3 }, args = { axis = 1 } }, { { 7 }, { 7 }, args = { axis = 0 } },
      { { 2, 1100 }, { 2, 1100 }, args = { axis = 1 } },
      { { 3, 72 }, { 3, 72 }, args = { axis = 1 } },
      { { 2, 640 }, { 2, 640 }, args = { axis = 1 } },
      { { 2, 4104 }, { 2, 4104 }, args = { axis = 1 } },
      { { 1, 20000 }, { 1, 20000 }, args = { axis = 1 } },
      { { 1100, 2 }, { 1100, 2 }, args = { axis = 0 } },
      { { 430, 40 }, { 430, 40 }, args = { axis = 1 }, only = 'f32' },
      { { 0, 3 }, { 0, 3 }, args = { axis = 1 } }, { { 3, 0 }, { 3, 0 }, args = { axis = 1 } },
    },
    dtypes = FLOATS, ulps = 12,
    mixed = { { 'f32', 'bf16' }, { 'f16', 'f32' } },
    large = { { { 3000, 200 }, { 3000, 200 }, args = { axis = 1 } } },
    bad = { { { { 2, 3 }, { 3 } }, { 'f32', 'f32' }, { axis = 0 }, ESHAPE },
      { { { 2, 3 }, { 2, 3 } }, { 'f32', 'f32' }, { axis = 2 }, -3 },
      { { { 2 }, { 2 } }, { 'i32', 'f32' }, { axis = 0 }, EDTYPE } },
  }
end
