-- SPDX-License-Identifier: MIT
-- scaled_conv_spec: convolutions of bytes against sums of whole numbers, in every bit, by every
-- instruction set: extremes, zero points, images read in place and rows gathered.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local case, reference, tensors = all.cases.scaled_conv2d, all.reference, all.tensors
local ffi = require 'ffi'
local C = tensors.C

local ENOSUP = -7
local slot = ffi.new('rg_tensor *[1]')
local ON_CPU = tensors.DEVICE == 0

local state = 1
local function number(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n
end

-- Bytes: one everywhere, or drawn from the whole range.
local function bytes(shape, dtype, value)
  local x, least = reference.new(shape, dtype), dtype == 'u8' and 0 or -128
  for i = 1, reference.count(shape) do x[i] = value or number(256) + least end
  return x
end

local function floats(shape, value)
  local x = reference.new(shape, 'f32')
  for i = 1, reference.count(shape) do x[i] = value or (number(65) - 32) / 8 end
  return x
end

local function run(t, args)
  tensors.check(case.call(C, t, args, slot))
  return tensors.hold(slot[0])
end

local MOST = C.rg_machine_facts().isa_level

-- One call by every instruction set; layouts: of some inputs, contiguous where there is none;
-- is_param: the weight is kept packed.
local function try(list, args, layouts, is_param)
  local t, wanted = {}, case.reference(list, args)[1]
  for i = 1, 6 do
    t[i] = list[i] and (layouts and layouts[i] or tensors.LAYOUTS[1]).make(list[i])
  end
  if is_param then C.rg_tensor_set_param(t[2], 1) end
  for level = ON_CPU and 0 or MOST, MOST do
    tensors.check(C.rg_set_isa(level))
    local got = tensors.read(run(t, args))
    assert.are.equal(#wanted, #got)
    for i = 1, #wanted do
      if got[i] ~= wanted[i] then
        error(('level %d: element %d is %.9g, wanted %.9g'):format(level, i, got[i], wanted[i]), 0)
      end
    end
  end
  tensors.release_all()
end

-- Shapes of x (channels last) and w, arguments.
local GEOMETRIES = {
  ['in place'] = { { 2, 6, 17, 8 }, { 33, 8, 3, 3 }, { pad = { 1, 1, 1, 1 } } },
  ['in place, one channel of four'] = { { 1, 5, 5, 4 }, { 1, 4, 1, 1 }, { stride = { 2, 2 } } },
  ['in place, more padding than image'] = { { 1, 2, 2, 4 }, { 3, 4, 2, 2 },
    { pad = { 3, 4, 2, 5 }, stride = { 2, 3 }, dilation = { 2, 1 } } },
  gathered = { { 2, 5, 6, 3 }, { 5, 3, 3, 2 }, { pad = { 1, 0, 0, 2 } } },
  ['gathered, dilated'] = { { 1, 7, 9, 4 }, { 2, 4, 3, 3 },
    { dilation = { 1, 2 }, pad = { 0, 2, 0, 2 } } },
  ['in groups of four channels'] = { { 1, 4, 5, 8 }, { 6, 4, 2, 3 },
    { groups = 2, pad = { 1, 0, 1, 0 } } },
  ['in groups'] = { { 1, 4, 5, 6 }, { 9, 2, 2, 3 }, { groups = 3, stride = { 1, 2 } } },
  ['of each channel'] = { { 1, 5, 5, 5 }, { 5, 1, 3, 3 }, { groups = 5, pad = { 1, 1, 1, 1 } } },
  ['of each of many channels'] = { { 1, 2, 17, 40 }, { 40, 1, 3, 3 },
    { groups = 40, pad = { 1, 1, 1, 1 } } },
  ['of each of many channels, an even number of taps'] = { { 2, 3, 9, 32 }, { 32, 1, 2, 3 },
    { groups = 32, pad = { 2, 1, 0, 3 }, stride = { 2, 2 }, dilation = { 1, 2 } } },
}

local function merged(a, b)
  local both = {}
  for k, v in pairs(a) do both[k] = v end
  for k, v in pairs(b) do both[k] = v end
  return both
end

describe('a convolution of bytes', function()
  after_each(function()
    tensors.release_all()
    tensors.check(C.rg_set_isa(MOST))
  end)

  for name, g in pairs(GEOMETRIES) do
    it('has the sums of whole numbers, ' .. name, function()
      for _, pair in ipairs { { 'u8' }, { 'i8' }, { 'u8', 255, -128 }, { 'u8', 0, 127 },
        { 'i8', -128, -128 }, { 'i8', 127, -128 } } do
        local x, w = bytes(g[1], pair[1], pair[2]), bytes(g[2], 'i8', pair[3])
        for _, zero in ipairs(pair[1] == 'u8' and { 0, 64, 255 } or { -128, 0, 127 }) do
          try({ x, w, floats({}, 1), floats({}, 1) },
            merged(g[3], { nhwc = true, x_zero = zero }))
        end
      end
    end)

    it('reads a scale for each output, and a bias, where they lie, ' .. name, function()
      local n = g[2][1]
      local bias = reference.new({ n }, 'i32')
      for i = 1, n do bias[i] = number(60001) - 30000 end
      for _, layout in ipairs(tensors.LAYOUTS) do
        if layout.name == 'stepped' or layout.name == 'offset' then
          for _, b in ipairs { bias, floats({ n }) } do
            try({ bytes(g[1], 'u8'), bytes(g[2], 'i8'), floats({}, 0.5), floats({ n }), b },
              merged(g[3], { nhwc = true }), { [4] = layout, [5] = layout })
          end
        end
      end
    end)

    it('adds a bias of whole numbers to the sums, ' .. name, function()
      local bias = reference.new({ g[2][1] }, 'i32')
      for i = 1, g[2][1] do bias[i] = number(60001) - 30000 end
      try({ bytes(g[1], 'u8'), bytes(g[2], 'i8'), floats({}, 0.5), floats({}, 2 ^ -4), bias },
        merged(g[3], { nhwc = true, x_zero = 3, act = 1 }))
    end)

    it('saturates bytes and rounds ties to even, ' .. name, function()
      for i, dtype in ipairs { 'u8', 'i8' } do
        for _, scale in ipairs { 0.5, 64, 4096 } do
          try({ bytes(g[1], 'u8'), bytes(g[2], 'i8'), floats({ 1 }, 0.25),
            floats({ g[2][1] }, 2), floats { g[2][1] }, floats({}, scale) },
            merged(g[3], { nhwc = true, x_zero = 100, y_zero = 20 * i, dtype = dtype,
              act = i - 1 }))
        end
      end
    end)
  end

  -- More results than a band has: rows that were padded for one band are read by the next; tiles go
  -- on over the ends of rows, and begin and end anywhere in them.
  it('has the same sums in many bands and by many threads', function()
    local threads = C.rg_threads()
    for _, n in ipairs { 1, 3 } do
      tensors.check(C.rg_set_threads(n))
      try({ bytes({ 2, 75, 45, 4 }, 'u8'), bytes({ 33, 4, 3, 2 }, 'i8'), floats({}, 0.5),
        floats({ 33 }), floats { 33 }, floats({}, 2) },
        { nhwc = true, pad = { 1, 1, 1, 0 }, x_zero = 7, y_zero = -5, dtype = 'i8', act = 1 })
      try({ bytes({ 1, 11, 300, 4 }, 'i8'), bytes({ 32, 4, 1, 1 }, 'i8'), floats({}, 0.5),
        floats({}, 1) }, { nhwc = true, x_zero = 7 })
    end
    tensors.check(C.rg_set_threads(threads))
  end)

  -- An image that a thread has no room for at once: a quarter of L2 is less.
  it('has the same sums where the rows of an image take turns', function()
    try({ bytes({ 1, 120, 100, 64 }, 'u8'), bytes({ 1, 64, 2, 1 }, 'i8'), floats({}, 0.5),
      floats({}, 1) }, { nhwc = true, pad = { 1, 1, 1, 1 }, x_zero = 7 })
  end)

  -- Kernels of 3 x 3 of many channels: Winograd's factors, whose tiles of 2 x 2 reach over the ends
  -- of rows and images, and whose channels are no multiple of a vector.
  describe('of 3 x 3', function()
    local SIZES = { { { 1, 7, 9, 20 }, { 33, 20, 3, 3 } }, { { 2, 6, 5, 19 }, { 32, 19, 3, 3 } },
      { { 3, 3, 4, 32 }, { 64, 32, 3, 3 } } }

    it('has the sums of whole numbers at the ends of what bytes hold', function()
      for _, g in ipairs(SIZES) do
        for _, pair in ipairs { { 'u8' }, { 'i8' }, { 'u8', 255, -128 }, { 'u8', 0, 127 },
          { 'i8', -128, -128 }, { 'i8', 127, -128 } } do
          local x, w = bytes(g[1], pair[1], pair[2]), bytes(g[2], 'i8', pair[3])
          for _, zero in ipairs(pair[1] == 'u8' and { 0, 255 } or { -128, 127 }) do
            try({ x, w, floats({}, 1), floats({}, 1) },
              { nhwc = true, x_zero = zero, pad = { 1, 1, 1, 1 } }, nil, true)
          end
        end
      end
    end)

    it('has them for any padding, order of axes, bias, type and number of threads', function()
      local threads = C.rg_threads()
      for i, pad in ipairs { { 0, 0, 0, 0 }, { 2, 0, 0, 3 }, { 0, 1, 4, 1 } } do
        local g = SIZES[i]
        local o, bias = g[2][1], reference.new({ g[2][1] }, 'i32')
        for j = 1, o do bias[j] = number(60001) - 30000 end
        for _, n in ipairs { 1, 3 } do
          tensors.check(C.rg_set_threads(n))
          try({ bytes(g[1], 'u8'), bytes(g[2], 'i8'), floats({}, 0.5), floats({ o }), bias },
            { nhwc = true, pad = pad, x_zero = 9, act = 1 }, { [2] = tensors.LAYOUTS[i] }, true)
          local x = { g[1][1], g[1][4], g[1][2], g[1][3] }
          try({ bytes(x, 'i8'), bytes(g[2], 'i8'), floats({}, 0.25), floats({}, 0.25), false,
            floats({}, 64) }, { pad = pad, x_zero = -3, dtype = 'u8', y_zero = 99 }, nil, true)
        end
      end
      tensors.check(C.rg_set_threads(threads))
    end)

    it('has them in many blocks, of a weight that is not kept', function()
      try({ bytes({ 1, 40, 41, 64 }, 'u8'), bytes({ 32, 64, 3, 3 }, 'i8'), floats({}, 0.5),
        floats({}, 1) }, { nhwc = true, pad = { 1, 1, 1, 1 }, x_zero = 7 })
    end)

    it('reads a weight that was written to', function()
      local x, w = bytes({ 1, 6, 6, 32 }, 'u8'), bytes({ 32, 32, 3, 3 }, 'i8')
      local t = { tensors.make(x, x.shape, 'u8'), tensors.make(w, w.shape, 'i8'),
        tensors.make({ 0.5 }, {}, 'f32'), tensors.make({ 1 }, {}, 'f32') }
      C.rg_tensor_set_param(t[2], 1)
      run(t, { nhwc = true })
      tensors.check(C.rg_fill_(t[2], 0))
      for _, v in ipairs(tensors.read(run(t, { nhwc = true }))) do assert.are.equal(0, v) end
    end)
  end)

  local DRAWS = 25
  it('has the sums of whole numbers for drawn sizes, types and orders of axes', function()
    for draw = 1, DRAWS do
      local groups = number(4) == 0 and number(3) + 1 or 1
      local c, o = (number(4) == 0 and number(20) or 4 * number(18)) + 1, number(number(3) * 35 + 3)
      if number(3) > 0 then c = c + 3 - (c + 3) % 4 end
      local k = { number(4) + 1, number(4) + 1 }
      local dilation = { number(3) == 0 and 2 or 1, number(4) == 0 and 2 or 1 }
      local args = { nhwc = number(3) > 0, groups = groups, dilation = dilation,
        stride = { number(3) == 0 and 2 or 1, number(3) == 0 and 2 or 1 },
        pad = { number(3), number(3), number(3), number(3) },
        act = number(3) == 0 and 1 or 0, y_zero = 0 }
      local h = (k[1] - 1) * dilation[1] + 1 + number(9)
      local w = (k[2] - 1) * dilation[2] + 1 + number(40)
      local channels = c * groups
      local x_type = number(2) == 0 and 'u8' or 'i8'
      local x = bytes(args.nhwc and { number(2) + 1, h, w, channels } or
        { number(2) + 1, channels, h, w }, x_type)
      args.x_zero = number(256) - (x_type == 'i8' and 128 or 0)
      o = (o + 1) * groups
      args.dtype = ({ 'u8', 'i8', 'f32', 'f32' })[number(4) + 1]
      local y_scale = args.dtype ~= 'f32' and floats({}, 2 ^ (number(8) + 3)) or nil
      if args.dtype == 'u8' then args.y_zero = number(256) end
      -- powers of two, and a bias beside sums that f32 has room for: nothing else is rounded
      local bias = c * k[1] * k[2] <= 250 and floats { o } or false
      local ok, message = pcall(try, { x, bytes({ o, c, k[1], k[2] }, 'i8'), floats({}, 0.25),
        floats({ number(2) == 0 and o or 1 }, 0.25), bias, y_scale }, args)
      if not ok then
        error(('draw %d: x %s, w %d x %d x %d x %d: %s'):format(draw, table.concat(x.shape, ' x '),
          o, c, k[1], k[2], tostring(message)), 0)
      end
    end
  end)

  it('gives the zero point for what is no number', function()
    local x, w = bytes({ 1, 2, 2, 4 }, 'u8', 3), bytes({ 2, 4, 1, 1 }, 'i8', 1)
    for level = ON_CPU and 0 or MOST, MOST do
      tensors.check(C.rg_set_isa(level))
      local t = { tensors.make(x, x.shape, 'u8'), tensors.make(w, w.shape, 'i8'),
        tensors.make({ 1 }, {}, 'f32'), tensors.make({ 1, 0 / 0 }, { 2 }, 'f32'), false,
        tensors.make({ 1 }, {}, 'f32') }
      local y = tensors.read(run(t, { nhwc = true, y_zero = 7, dtype = 'u8' }))
      assert.same({ 19, 7, 19, 7 }, { unpack(y, 1, 4) })
    end
  end)

  it('reads scales, and a weight that was written to, when a plan is replayed', function()
    local x, w = bytes({ 1, 4, 4, 4 }, 'u8'), bytes({ 3, 4, 3, 3 }, 'i8')
    local t = { tensors.make(x, x.shape, 'u8'), tensors.make(w, w.shape, 'i8'),
      tensors.make({ 0.5 }, { 1 }, 'f32'), tensors.make({ 1 }, {}, 'f32') }
    local plan, args = ffi.new 'rg_plan *[1]', { nhwc = true, x_zero = 9 }
    C.rg_tensor_set_param(t[2], 1)
    local before = tensors.read(run(t, args))
    tensors.check(C.rg_capture_begin())
    local y = run(t, args)
    tensors.check(C.rg_capture_end(plan))
    tensors.check(C.rg_fill_(t[3], 2))
    tensors.check(C.rg_plan_replay(plan[0], 1))
    for i, v in ipairs(tensors.read(y)) do assert.are.equal(4 * before[i], v) end
    tensors.check(C.rg_fill_(t[2], 0))
    tensors.check(C.rg_plan_replay(plan[0], 1))
    for _, v in ipairs(tensors.read(y)) do assert.are.equal(0, v) end
    C.rg_plan_release(plan[0])
  end)

  it('has no gradient, and says so', function()
    local x, w = bytes({ 1, 2, 2, 4 }, 'u8'), bytes({ 2, 4, 1, 1 }, 'i8')
    local one, sum = tensors.make({ 2 }, {}, 'f32'), ffi.new 'rg_tensor *[1]'
    tensors.check(C.rg_require_grad(one, 1))
    local t = { tensors.make(x, x.shape, 'u8'), tensors.make(w, w.shape, 'i8'), one,
      tensors.make({ 1 }, {}, 'f32') }
    tensors.check(C.rg_sum(run(t, { nhwc = true }), nil, 0, 0, sum))
    local status = C.rg_backward(tensors.hold(sum[0]), nil, 0)
    assert.are.equal(ENOSUP, status)
    assert.are.equal('scaled_conv2d: has no gradient', tensors.failure(status))
  end)

  it('says what does not fit', function()
    local x, w = bytes({ 1, 2, 2, 4 }, 'u8', 1), bytes({ 2, 4, 1, 1 }, 'i8', 1)
    local one, far = floats({}, 1), reference.new({ 2 }, 'i32')
    far[1], far[2] = 0, -2 ^ 31
    for _, bad in ipairs {
      { { x, w, one, one }, { x_zero = 256 }, 'x_zero is 256, wanted 0 .. 255 beside u8' },
      { { x, w, one, one }, { y_zero = 1 }, 'y_zero is 1, wanted 0 .. 0 beside f32' },
      { { x, w, one, one }, { dtype = 'u8' }, 'there is no y_scale, which a result of u8 needs' },
      { { x, w, one, one, false, one }, {},
        'there is a y_scale, and the result is f32, which needs none' },
      { { x, w, floats({ 2 }, 1), one }, {}, 'x_scale is f32[2], wanted one number' },
      { { x, w, one, floats({ 3 }, 1) }, {}, 'w_scale is f32[3], wanted one number or [2]' },
      { { x, x, one, one }, {}, 'w is u8, wanted i8' },
      { { x, w, one, one, far }, {}, 'the bias at 2 is -2147483648, with which a sum of 4 '
        .. 'products may not fit into i32' },
    } do
      local t, list = {}, bad[1]
      for i = 1, 6 do t[i] = list[i] and tensors.make(list[i], list[i].shape, list[i].dtype) end
      local status = case.call(C, t, merged(bad[2], { nhwc = true }), slot)
      assert.are.equal('scaled_conv2d: ' .. bad[3], tensors.failure(status))
    end
  end)
end)
