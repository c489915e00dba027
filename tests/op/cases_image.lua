-- SPDX-License-Identifier: MIT
-- cases_image: sample inputs for operations on images; see cases.lua for what an entry holds.

local ffi = require 'ffi'

local ESHAPE, EDTYPE, EARG = -1, -2, -4

return function(M)
  local cases, reference, tensors = M.cases, M.reference, M.tensors
  local FLOATS = tensors.FLOATS

  local function options(a)
    local o = ffi.new('rg_conv2d_options')
    for i = 1, 2 do
      o.stride[i - 1] = (a.stride or { 0, 0 })[i]
      o.dilation[i - 1] = (a.dilation or { 0, 0 })[i]
      o.pad_low[i - 1] = (a.pad or { 0, 0 })[i]
      o.pad_high[i - 1] = (a.pad or { 0, 0, 0, 0 })[i + 2]
    end
    o.groups, o.layout, o.act = a.groups or 0, a.nhwc and 1 or 0, a.act or 0
    return o
  end

  -- x, w, arguments; the sizes of y and dy follow.
  local GEOMETRIES = {
    { { 2, 3, 5, 6 }, { 4, 3, 3, 3 }, {} },
    { { 1, 1, 4, 4 }, { 2, 1, 2, 3 }, { stride = { 2, 1 } } },
    { { 2, 2, 6, 5 }, { 3, 2, 3, 2 }, { pad = { 1, 0, 2, 1 } } },
    { { 1, 2, 7, 8 }, { 2, 2, 2, 3 }, { dilation = { 2, 3 }, pad = { 1, 1, 1, 1 } } },
    { { 2, 4, 4, 5 }, { 6, 2, 2, 2 }, { groups = 2, stride = { 1, 2 } } },
    { { 1, 3, 5, 5 }, { 3, 1, 3, 3 }, { groups = 3, pad = { 1, 1, 1, 1 } } },
    { { 2, 3, 1, 1 }, { 5, 3, 1, 1 }, {} },
    { { 1, 17, 4, 4 }, { 19, 17, 3, 3 }, { pad = { 1, 1, 1, 1 } } },
  }

  local function last(shape) return { shape[1], shape[3], shape[4], shape[2] } end

  local function merged(a, b)
    local all = {}
    for k, v in pairs(a) do all[k] = v end
    for k, v in pairs(b) do all[k] = v end
    return all
  end

  local function zeros(shape)
    local x = reference.new(shape, 'f64')
    for i = 1, reference.count(shape) do x[i] = 0 end
    return x
  end

  local function y_shape(x, w, a)
    return reference.conv2d({ zeros(x), zeros(w) }, a)[1].shape
  end

  local forward, data, weight = {}, {}, {}
  for i, g in ipairs(GEOMETRIES) do
    local x, w, a = g[1], g[2], g[3]
    for _, nhwc in ipairs { false, true } do
      local args = merged(a, { nhwc = nhwc or nil })
      local xs = nhwc and last(x) or x
      local ys = y_shape(xs, w, args)
      forward[#forward + 1] = { xs, w, i % 2 == 1 and { w[1] } or false, args = args }
      data[#data + 1] = { ys, w, args = merged(args, { rows = x[3], columns = x[4] }) }
      weight[#weight + 1] = { xs, ys, args = merged(args, { rows = w[3], columns = w[4] }) }
    end
  end
  for act = 1, 6 do
    forward[#forward + 1] = { { 1, 2, 4, 5 }, { 3, 2, 2, 2 }, { 3 }, args = { act = act } }
  end
  forward[#forward + 1] = { { 0, 2, 4, 5 }, { 3, 2, 2, 2 }, { 3 }, args = {} }
  data[#data + 1] = { { 0, 3, 3, 4 }, { 3, 2, 2, 2 }, args = { rows = 4, columns = 5 } }
  weight[#weight + 1] = { { 0, 2, 4, 5 }, { 0, 3, 3, 4 }, args = { rows = 2, columns = 2 } }

  -- Images of padding alone.
  local padded = { pad = { 1, 1, 1, 1 } }
  forward[#forward + 1] = { { 2, 2, 0, 4 }, { 3, 2, 2, 2 }, { 3 },
    args = merged(padded, { act = 2 }) }
  data[#data + 1] = { { 2, 3, 1, 5 }, { 3, 2, 2, 2 },
    args = merged(padded, { rows = 0, columns = 4 }) }
  weight[#weight + 1] = { { 2, 2, 0, 4 }, { 2, 3, 1, 5 },
    args = merged(padded, { rows = 2, columns = 2 }) }

  local F2, F3 = { 'f32', 'f32' }, { 'f32', 'f32', 'f32' }

  cases.conv2d = {
    call = function(C, t, a, out) return C.rg_conv2d(t[1], t[2], t[3] or nil, options(a), out) end,
    reference = reference.conv2d,
    samples = forward,
    dtypes = FLOATS, mixed = { { 'f32', 'bf16', 'f32' }, { 'f16', 'f32', 'f16' } },
    ulps = 4, by_library = true, optional = { [3] = true },
    large = { { { 8, 16, 30, 30 }, { 24, 16, 3, 3 }, { 24 }, args = {} } },
    bad = { { { { 2, 3, 5 }, { 4, 3, 3, 3 } }, F2, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 2, 3, 3 } }, F2, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 6, 3 } }, F2, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 3 } }, F3, {}, ESHAPE },
      { { { 2, 4, 5, 5 }, { 3, 2, 3, 3 } }, F2, { groups = 2 }, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 } }, F2, { stride = { -1, 1 } }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 } }, F2, { pad = { 0, -1, 0, 0 } }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 } }, F2, { groups = -1 }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 } }, F2, { act = 77 }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 } }, { 'i32', 'i32' }, {}, EDTYPE } },
  }

  local added = {}
  for i, s in ipairs(forward) do
    local y = reference.conv2d({ zeros(s[1]), zeros(s[2]) }, s.args)[1].shape
    added[i] = { s[1], s[2], y, s[3] or false, args = s.args }
  end
  cases.conv2d_add = {
    call = function(C, t, a, out)
      return C.rg_conv2d_add(t[1], t[2], t[3], t[4] or nil, options(a), out)
    end,
    reference = reference.conv2d_add,
    samples = added,
    dtypes = FLOATS, mixed = { { 'f32', 'bf16', 'f32', 'f32' }, { 'f16', 'f32', 'f16', 'f16' } },
    ulps = 4, by_library = true, optional = { [4] = true },
    large = { { { 8, 16, 30, 30 }, { 24, 16, 3, 3 }, { 8, 24, 28, 28 }, { 24 }, args = {} } },
    bad = { { { { 2, 3, 5 }, { 4, 3, 3, 3 }, { 2, 4, 3, 3 } }, F3, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 1, 4, 3, 3 } }, F3, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 4, 3, 3 } }, F3, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 2, 3, 3, 4 } }, F3, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 2, 4, 3, 3 } }, F3, { act = 77 }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 2, 4, 3, 3 } }, { 'i32', 'i32', 'i32' }, {}, EDTYPE } },
  }

  local function scaled_options(a)
    local o = ffi.new('rg_scaled_conv2d_options')
    o.conv = options(a)
    o.more.x_zero, o.more.y_zero = a.x_zero or 0, a.y_zero or 0
    o.more.dtype = tensors.CODES[a.dtype or 'f32']
    return o
  end

  -- Bytes of the whole range; scales are powers of two and biases eighths, so that all is exact.
  local function whole_range(inputs)
    for i = 1, 2 do
      local least = inputs[i].dtype == 'u8' and 0 or -128
      for j = 1, reference.count(inputs[i].shape) do
        inputs[i][j] = (j * 37 + i * 11) % 256 + least
      end
    end
    for i = 3, 6 do
      for j = 1, inputs[i] and reference.count(inputs[i].shape) or 0 do
        inputs[i][j] = i == 5 and (j * 29 % 65 - 32) / 8 or 2 ^ (i == 6 and 9 or j % 5 - 4)
      end
    end
  end

  local scaled = {}
  for i, g in ipairs(GEOMETRIES) do
    for _, nhwc in ipairs { false, true } do
      local x, w = nhwc and last(g[1]) or g[1], g[2]
      scaled[#scaled + 1] = { x, w, {}, i % 2 == 1 and { w[1] } or {}, i % 2 == 1 and { w[1] }
        or false, false, args = merged(g[3], { nhwc = nhwc or nil, x_zero = 7 * i, act = i % 2 }) }
      scaled[#scaled + 1] = { x, w, { 1 }, { w[1] }, i % 2 == 0 and { w[1] } or false, {},
        args = merged(g[3], { nhwc = nhwc or nil, x_zero = i, y_zero = 3 * i, act = i % 2,
          dtype = i % 3 == 0 and 'i8' or 'u8' }) }
    end
  end
  for _, more in ipairs { {}, { stride = { 2, 3 } }, { dilation = { 2, 1 } },
    { dilation = { 1, 2 } }, { pad = { 3, 0, 1, 2 } } } do -- channels in fours: read in place
    scaled[#scaled + 1] = { { 2, 9, 20, 12 }, { 35, 12, 3, 2 }, {}, { 35 }, { 35 }, false,
      args = merged(more, { nhwc = true, x_zero = 5, dtype = 'bf16' }) }
  end
  scaled[#scaled + 1] = { { 0, 2, 4, 5 }, { 3, 2, 2, 2 }, {}, {}, { 3 }, false, args = {} }
  scaled[#scaled + 1] = { { 2, 2, 0, 4 }, { 3, 2, 2, 2 }, {}, {}, { 3 }, false, args = padded }

  local B4 = { 'i8', 'i8', 'f32', 'f32' }
  cases.scaled_conv2d = {
    call = function(C, t, a, out)
      return C.rg_scaled_conv2d(t[1], t[2], t[3], t[4], t[5] or nil, t[6] or nil,
        scaled_options(a), out)
    end,
    reference = reference.scaled_conv2d,
    inputs = { [3] = 'f32', [4] = 'f32', [5] = 'f32', [6] = 'f32' },
    prepare = whole_range,
    samples = scaled,
    dtypes = { 'i8' }, mixed = { { 'u8', 'i8' } },
    ulps = 2, by_library = true, optional = { [5] = true, [6] = true },
    large = { { { 4, 30, 30, 16 }, { 24, 16, 3, 3 }, {}, { 24 }, { 24 },
      args = { nhwc = true } } },
    bad = { { { { 2, 3, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 2, 3, 3 }, {}, {} }, B4, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, { 2 }, {} }, B4, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, { 3 } }, B4, {}, ESHAPE },
      { { { 1, 7311, 3, 3 }, { 1, 7311, 3, 3 }, {}, {} }, B4, {}, ESHAPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, { x_zero = 128 }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, { y_zero = 1 }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, { dtype = 'u8' }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, { dtype = 'i32' }, EDTYPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, B4, { stride = { -1, 1 } }, EARG },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, { 'i8', 'u8', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2, 3, 5, 5 }, { 4, 3, 3, 3 }, {}, {} }, { 'f32', 'i8', 'f32', 'f32' }, {}, EDTYPE } },
  }

  cases.conv2d_back_data = {
    call = function(C, t, a, out)
      return C.rg_conv2d_back_data(t[1], t[2], a.rows, a.columns, options(a), out)
    end,
    reference = reference.conv2d_back_data,
    samples = data,
    dtypes = FLOATS, ulps = 4, by_library = true,
    large = { { { 8, 24, 28, 28 }, { 24, 16, 3, 3 }, args = { rows = 30, columns = 30 } } },
    bad = { { { { 2, 4, 3, 3 }, { 4, 3, 3, 3 } }, F2, { rows = 9, columns = 5 }, ESHAPE },
      { { { 2, 5, 3, 3 }, { 4, 3, 3, 3 } }, F2, { rows = 5, columns = 5 }, ESHAPE },
      { { { 2, 4, 3, 3 }, { 4, 3, 3, 3 } }, { 'i8', 'i8' }, { rows = 5, columns = 5 }, EDTYPE } },
  }

  local two = ffi.new('rg_tensor *[2]')
  cases.conv2d_back_weight = {
    call = function(C, t, a, out)
      local status = C.rg_conv2d_back_weight(t[1], t[2], a.rows, a.columns, options(a), two,
        two + 1)
      if status == 0 then out[0], out[1] = two[0], two[1] end
      return status
    end,
    n_out = 2,
    reference = reference.conv2d_back_weight,
    samples = weight,
    dtypes = FLOATS, ulps = 4, by_library = true,
    large = { { { 8, 16, 30, 30 }, { 8, 24, 28, 28 }, args = { rows = 3, columns = 3 } } },
    bad = { { { { 2, 3, 5, 5 }, { 2, 4, 3, 3 } }, F2, { rows = 2, columns = 3 }, ESHAPE },
      { { { 2, 3, 5, 5 }, { 1, 4, 3, 3 } }, F2, { rows = 3, columns = 3 }, ESHAPE },
      { { { 2, 3, 5, 5 }, { 2, 4, 3, 3 } }, { 'i8', 'i8' }, { rows = 3, columns = 3 }, EDTYPE } },
  }

  -- -- Pooling ----------------------------------------------------------------------------------

  local function window(a)
    local o = ffi.new('rg_pool2d_options')
    for i = 1, 2 do
      o.size[i - 1] = a.size[i]
      o.stride[i - 1] = (a.stride or { 0, 0 })[i]
      o.pad_low[i - 1] = (a.pad or { 0, 0 })[i]
      o.pad_high[i - 1] = (a.pad or { 0, 0, 0, 0 })[i + 2]
    end
    o.layout, o.skip_pad = a.nhwc and 1 or 0, a.skip_pad and 1 or 0
    return o
  end

  local WINDOWS = {
    { { 2, 3, 6, 8 }, { size = { 2, 2 } } },
    { { 1, 2, 7, 5 }, { size = { 3, 2 }, stride = { 2, 1 } } },
    { { 2, 1, 6, 5 }, { size = { 3, 3 }, stride = { 2, 2 }, pad = { 1, 1, 1, 1 } } },
    { { 1, 3, 5, 4 }, { size = { 2, 3 }, stride = { 1, 1 }, pad = { 1, 2, 0, 1 },
      skip_pad = true } },
    { { 1, 20, 4, 4 }, { size = { 4, 4 } } },
    { { 2, 16, 5, 4 }, { size = { 3, 2 }, stride = { 2, 1 }, pad = { 1, 0, 1, 1 } } },
    { { 1, 16, 9, 8 }, { size = { 2, 1 }, stride = { 4, 3 } } }, -- what no window holds
    { { 2, 16, 6, 4 }, { size = { 2, 2 }, unusual = true } },
    -- rows of images in packs, windows that begin before them and end behind them
    { { 2, 3, 7, 16 }, { size = { 3, 3 }, stride = { 2, 2 }, pad = { 1, 1, 1, 1 } } },
    { { 1, 2, 7, 16 }, { size = { 3, 3 }, stride = { 2, 2 }, pad = { 1, 1, 1, 1 },
      unusual = true } },
    { { 1, 2, 5, 16 }, { size = { 2, 3 }, stride = { 3, 2 }, pad = { 0, 0, 0, 1 } } },
    { { 1, 2, 6, 16 }, { size = { 4, 4 }, stride = { 2, 2 }, pad = { 1, 1, 1, 1 },
      skip_pad = true } },
    { { 1, 2, 4, 24 }, { size = { 3, 3 }, stride = { 1, 1 }, pad = { 1, 1, 1, 1 } } },
    { { 1, 1, 3, 8 }, { size = { 1, 2 }, stride = { 1, 1 }, pad = { 0, 1, 0, 0 } } },
    -- rows of windows, or channels, that are more than a vector and no whole number of them
    { { 1, 1, 2, 70 }, { size = { 2, 3 }, stride = { 1, 1 }, pad = { 0, 1, 0, 2 } } },
    { { 1, 1, 3, 75 }, { size = { 2, 3 }, stride = { 1, 2 }, pad = { 1, 0, 0, 1 } } },
    { { 1, 37, 2, 22 }, { size = { 2, 2 }, stride = { 1, 3 } } },
    -- a last window that ends behind its row, a second one that begins before it
    { { 1, 1, 3, 76 }, { size = { 2, 3 }, stride = { 1, 2 }, pad = { 1, 0, 0, 1 } } },
    { { 1, 1, 7, 20 }, { size = { 3, 5 }, stride = { 3, 1 }, pad = { 0, 2, 0, 0 } } },
  }
  local pool, back = {}, {}
  for _, g in ipairs(WINDOWS) do
    local x, a = g[1], g[2]
    for _, nhwc in ipairs { false, true } do
      local args = merged(a, { nhwc = nhwc or nil })
      local xs = nhwc and last(x) or x
      pool[#pool + 1] = { xs, args = args }
      local ys = reference.avg_pool2d({ zeros(xs) }, args)[1].shape
      back[#back + 1] = { ys,
        args = merged(args, { rows = x[3], columns = x[4], shape = ys }) }
    end
  end
  pool[#pool + 1] = { { 0, 3, 4, 4 }, args = { size = { 2, 2 } } }
  back[#back + 1] = { { 0, 3, 2, 2 }, args = { size = { 2, 2 }, rows = 4, columns = 4,
    shape = { 0, 3, 2, 2 } } }

  local BAD = { { { { 2, 3, 4 } }, { 'f32' }, { size = { 2, 2 } }, ESHAPE },
    { { { 2, 3, 4, 4 } }, { 'f32' }, { size = { 5, 2 } }, ESHAPE },
    { { { 2, 3, 0, 4 } }, { 'f32' }, { size = { 2, 2 }, pad = { 1, 1, 1, 1 } }, ESHAPE },
    { { { 2, 3, 4, 4 } }, { 'f32' }, { size = { 0, 2 } }, EARG },
    { { { 2, 3, 4, 4 } }, { 'f32' }, { size = { 2, 2 }, stride = { -1, 1 } }, EARG },
    { { { 2, 3, 4, 4 } }, { 'f32' }, { size = { 2, 2 }, pad = { 2, 0, 0, 0 } }, EARG },
    { { { 2, 3, 4, 4 } }, { 'i32' }, { size = { 2, 2 } }, EDTYPE } }
  -- Windows of -inf alone, and nan in some.
  local function unusual(list, sample)
    for i = 1, sample.args.unusual and #list[1] or 0 do
      list[1][i] = i % 41 == 7 and 0 / 0 or i * 2 <= #list[1] and -math.huge or list[1][i]
    end
  end

  for _, name in ipairs { 'max_pool2d', 'avg_pool2d' } do
    cases[name] = {
      prepare = name == 'max_pool2d' and unusual or nil,
      call = function(C, t, a, out) return C['rg_' .. name](t[1], window(a), out) end,
      reference = reference[name],
      samples = pool,
      dtypes = FLOATS, ulps = name == 'max_pool2d' and 0 or 4,
      large = { { { 16, 8, 60, 60 }, args = { size = { 2, 2 } } } },
      bad = BAD,
    }
  end

  ffi.cdef [[typedef struct { rg_pool2d_options o; int32_t average; int64_t x_zero; }
    rg_test_scaled_pool;]]
  local scaled_pool, number = {}, nil
  for i, sample in ipairs(pool) do
    for _, average in ipairs { false, true } do
      scaled_pool[#scaled_pool + 1] = { sample[1], args = merged(sample.args, { average = average,
        x_zero = average and i % 3 * 20 or 0 }) }
    end
  end
  cases.scaled_pool2d = {
    call = function(C, t, a, out)
      number = number or tensors.index_of 'scaled_pool2d'
      local args = ffi.new('rg_test_scaled_pool[1]')
      args[0].o, args[0].average, args[0].x_zero = window(a), a.average and 1 or 0, a.x_zero or 0
      for i = 0, a.stride and -1 or 1 do args[0].o.stride[i] = a.size[i + 1] end
      return C.rg_op_call(number, ffi.new('const rg_tensor *[1]', { t[1] }), 1, args, nil, out)
    end,
    prepare = function(list)
      for i = 1, reference.count(list[1].shape) do
        list[1][i] = (i * 37 + math.floor(i / 7)) % 256 - (list[1].dtype == 'i8' and 128 or 0)
      end
    end,
    reference = reference.scaled_pool2d,
    samples = scaled_pool,
    dtypes = { 'i8', 'u8' }, ulps = 0,
    large = { { { 16, 8, 60, 60 }, args = { size = { 2, 2 }, average = true } } },
    bad = { { { { 2, 3, 4 } }, { 'i8' }, { size = { 2, 2 } }, ESHAPE },
      { { { 2, 3, 4, 4 } }, { 'u8' }, { size = { 5, 2 } }, ESHAPE },
      { { { 2, 3, 4, 4 } }, { 'u8' }, { size = { 2, 2 }, pad = { 2, 0, 0, 0 } }, EARG },
      { { { 2, 3, 4, 4 } }, { 'u8' }, { size = { 2, 2 }, x_zero = 256 }, EARG },
      { { { 2, 3, 4, 4 } }, { 'f32' }, { size = { 2, 2 } }, EDTYPE } },
  }

  -- Kept, because a plan refuses numbers from the host, and made before anything is counted.
  local indices = {}
  local function index_of(shape, a)
    local key = table.concat({ table.concat(shape, ','), a.nhwc and 'l' or 'f', a.rows, a.columns,
      table.concat(a.size, ','), table.concat(a.stride or {}, ','),
      table.concat(a.pad or {}, ',') }, ';')
    if not indices[key] then
      local list = reference.pool_index(shape, a)
      indices[key] = tensors.constant(list, { unpack(shape, 1, 4) }, 'i32')
    end
    return indices[key]
  end

  local LARGE = { { 16, 8, 30, 30 }, args = { size = { 2, 2 }, rows = 60, columns = 60,
    shape = { 16, 8, 30, 30 } } }
  for _, sample in ipairs(back) do index_of(sample[1], sample.args) end
  local function outside(at)
    return { { { 1, 1, 1, 2 } }, { 'f32' }, { size = { 2, 2 }, rows = 2, columns = 4,
      given = tensors.constant({ at, 2 }, { 1, 1, 1, 2 }, 'i32') }, EARG }
  end
  index_of(LARGE[1], LARGE.args)

  cases.max_pool2d_back = {
    call = function(C, t, a, out)
      local index = a.given or a.wrong and t[1] or index_of(a.shape, a)
      return C.rg_max_pool2d_back(t[1], index, a.rows, a.columns, window(a), out)
    end,
    reference = reference.max_pool2d_back,
    samples = back,
    dtypes = FLOATS, ulps = 4,
    large = { LARGE },
    bad = { { { { 2, 3, 2, 2 } }, { 'f32' }, { size = { 2, 2 }, rows = 9, columns = 4,
        wrong = true }, ESHAPE },
      { { { 2, 3, 2, 2 } }, { 'f32' }, { size = { 2, 2 }, rows = 4, columns = 4, wrong = true },
        ESHAPE }, outside(8), outside(-1) },
  }
  cases.avg_pool2d_back = {
    call = function(C, t, a, out)
      return C.rg_avg_pool2d_back(t[1], a.rows, a.columns, window(a), out)
    end,
    reference = reference.avg_pool2d_back,
    samples = back,
    dtypes = FLOATS, ulps = 4,
    large = { LARGE },
    bad = { { { { 2, 3, 2, 2 } }, { 'f32' }, { size = { 2, 2 }, rows = 9, columns = 4 }, ESHAPE } },
  }

  -- -- What is refused: each condition once, for rows and for columns ---------------------------

  local HUGE = 2 ^ 30 + 1
  local function refuse(name, shapes, args, status, dtypes)
    local types = dtypes or {}
    for i = #types + 1, #shapes do types[i] = 'f32' end
    table.insert(cases[name].bad, { shapes, types, args, status })
  end
  local X, W = { 2, 3, 5, 7 }, { 4, 3, 3, 2 }
  for _, each in ipairs { { X, W, 'conv2d', {} },
    { { 2, 4, 3, 6 }, W, 'conv2d_back_data', { rows = 5, columns = 7 } },
    { X, { 2, 4, 3, 6 }, 'conv2d_back_weight', { rows = 3, columns = 2 } } } do
    local function option(more)
      refuse(each[3], { each[1], each[2] }, merged(each[4], more), EARG)
    end
    for _, pair in ipairs { { -1, 1 }, { 1, -1 }, { HUGE, 1 }, { 1, HUGE } } do
      option { stride = pair }
      option { dilation = pair }
    end
    for i = 1, 4 do
      for _, n in ipairs { -1, HUGE } do
        local pad = { 0, 0, 0, 0 }
        pad[i] = n
        option { pad = pad }
      end
    end
    option { groups = -1 }
    option { groups = HUGE }
  end
  for _, w in ipairs { { 4, 3, 6, 2 }, { 4, 3, 3, 8 }, { 4, 3, 0, 2 }, { 4, 3, 3, 0 },
    { 0, 3, 3, 2 }, { 4, 2, 3, 2 }, { 4, 3, 3 } } do
    refuse('conv2d', { X, w }, {}, ESHAPE)
  end
  refuse('conv2d', { { 2, 0, 5, 7 }, { 4, 0, 3, 2 } }, {}, ESHAPE)
  refuse('conv2d', { X, W }, { dilation = { 3, 1 } }, ESHAPE)
  refuse('conv2d', { X, W }, { dilation = { 1, 7 } }, ESHAPE)
  refuse('conv2d', { { 2, 3, 5 }, W }, { nhwc = true }, ESHAPE)
  refuse('conv2d', { X, W, { 4, 1 } }, {}, ESHAPE)
  refuse('conv2d', { X, W }, {}, EDTYPE, { 'f32', 'u8' })
  local DY = { 2, 4, 3, 6 }
  for _, bad in ipairs { { 6, 7 }, { 5, 8 }, { 0, 7 }, { 5, -1 }, { HUGE, 7 }, { 5, HUGE } } do
    refuse('conv2d_back_data', { DY, W }, { rows = bad[1], columns = bad[2] }, ESHAPE)
  end
  for _, shapes in ipairs { { { 2, 4, 3 }, W }, { DY, { 4, 3, 3 } }, { DY, { 5, 3, 3, 2 } },
    { DY, { 4, 3, 0, 2 } } } do
    refuse('conv2d_back_data', shapes, { rows = 5, columns = 7 }, ESHAPE)
  end
  for _, bad in ipairs { { 2, 2 }, { 3, 3 }, { 0, 2 }, { 3, -1 }, { HUGE, 2 }, { 3, HUGE } } do
    refuse('conv2d_back_weight', { X, DY }, { rows = bad[1], columns = bad[2] }, ESHAPE)
  end
  for _, shapes in ipairs { { { 2, 3, 5 }, DY }, { X, { 2, 4, 3 } }, { { 3, 3, 5, 7 }, DY },
    { { 2, 0, 5, 7 }, DY }, { X, { 2, 0, 3, 6 } } } do
    refuse('conv2d_back_weight', shapes, { rows = 3, columns = 2 }, ESHAPE)
  end
  refuse('conv2d_back_weight', { X, DY }, { rows = 3, columns = 2, groups = 2 }, ESHAPE)
  refuse('conv2d_back_weight', { X, DY }, { rows = 3, columns = 2, groups = 3 }, ESHAPE)

  local BACK = { rows = 5, columns = 8, shape = { 2, 3, 2, 4 } }
  for _, each in ipairs { { 'max_pool2d', { 2, 3, 5, 8 }, {} }, { 'avg_pool2d_back', { 2, 3, 2, 4 },
    BACK }, { 'max_pool2d_back', { 2, 3, 2, 4 }, merged(BACK, { wrong = true }) } } do
    local function option(more)
      refuse(each[1], { each[2] }, merged(merged(each[3], { size = { 2, 2 } }), more), EARG)
    end
    for _, pair in ipairs { { -1, 1 }, { 1, -1 }, { HUGE, 1 }, { 1, HUGE } } do
      option { size = pair }
      option { size = { 2, 2 }, stride = pair }
    end
    for i = 1, 4 do
      for _, n in ipairs { -1, 2 } do
        local pad = { 0, 0, 0, 0 }
        pad[i] = n
        option { pad = pad }
      end
    end
  end
  refuse('max_pool2d', { { 2, 3, 4, 4 } }, { size = { 2, 5 } }, ESHAPE)
  refuse('max_pool2d', { { 2, 3, 4, 0 } }, { size = { 2, 2 }, pad = { 1, 1, 1, 1 } }, ESHAPE)
  refuse('avg_pool2d_back', { { 2, 3, 2 } }, merged(BACK, { size = { 2, 2 } }), ESHAPE)
  for _, bad in ipairs { { 6, 8 }, { 5, 10 }, { 0, 8 }, { 5, -1 }, { HUGE, 8 }, { 5, HUGE } } do
    local args = { size = { 2, 2 }, rows = bad[1], columns = bad[2], wrong = true }
    refuse('avg_pool2d_back', { { 2, 3, 2, 4 } }, args, ESHAPE)
    refuse('max_pool2d_back', { { 2, 3, 2, 4 } }, args, ESHAPE)
  end
  for _, given in ipairs { { { 2, 3, 8 }, 'i32' }, { { 3, 2, 2, 4 }, 'i32' },
    { { 2, 3, 4, 2 }, 'i32' }, { { 2, 3, 2, 4 }, 'i64' } } do
    local zero = {}
    for i = 1, 48 do zero[i] = 0 end
    refuse('max_pool2d_back', { { 2, 3, 2, 4 } }, merged(BACK, { size = { 2, 2 },
      given = tensors.constant(zero, given[1], given[2]) }), ESHAPE)
  end
end
