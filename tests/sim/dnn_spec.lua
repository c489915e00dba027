-- SPDX-License-Identifier: MIT
-- dnn_spec: what ridge gives to cuDNN, on the simulated GPU and with a stand-in for cuDNN that
-- computes what a graph says (fakecuda_dnn.cpp).  The samples are those of every device; here they
-- must have taken cuDNN's way, and its graphs, copies and pointers are what is tried.
--
--   RIDGE_GPU=build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 RIDGE_CUDNN=simulated

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
ffi.cdef [[
  size_t rgsim_launched(char *text, size_t room);
  int setenv(const char *name, const char *value, int overwrite);
  int unsetenv(const char *name);
]]
local all = dofile('tests/op/cases.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

local UNIT = { f32 = 2 ^ -23, f64 = 2 ^ -52, f16 = 2 ^ -10, bf16 = 2 ^ -7 } -- last place of 1
local TYPES = { 'f32', 'f16', 'bf16' }

local state = 1
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  return (math.floor(state / 65536) % 65 - 32) / 8
end

local function input(shape, dtype, scale)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do x[i] = number() * (scale or 1) end
  return x
end

local function near(result, wanted, ulps, what)
  local got = tensors.read(result)
  assert.are.equal(wanted.dtype, got.dtype, what)
  assert.are.same(wanted.shape, got.shape, what)
  for i = 1, reference.count(wanted.shape) do
    local size = math.max(math.abs(wanted[i]), wanted.magnitude and wanted.magnitude[i] or 0)
    if not (math.abs(got[i] - wanted[i]) <= (ulps + 0.01) * UNIT[got.dtype] * size + 1e-30) then
      error(('%s: element %d is %.9g, wanted %.9g'):format(what, i, got[i], wanted[i]), 0)
    end
  end
end

-- The ways that calls took while f ran, by operation: { conv2d = { cudnn = 3, [''] = 1 } }.
local function ways(f)
  local found = {}
  for _, event in ipairs(tensors.events(f)) do
    local op, path = event[1], event[2]
    found[op] = found[op] or {}
    found[op][path] = (found[op][path] or 0) + 1
  end
  return found
end

-- An operation, given a sample's inputs in a layout; checked against its definition.
local function try(entry, sample, dtypes, layout, what)
  local list, t = {}, {}
  for i, shape in ipairs(sample) do
    list[i] = shape and input(shape, type(dtypes) == 'table' and dtypes[i] or dtypes)
    t[i] = list[i] and layout.make(list[i])
  end
  local out = ffi.new('rg_tensor *[?]', entry.n_out or 1)
  tensors.check(entry.call(C, t, sample.args, out))
  local wanted = entry.reference(list, sample.args)
  for i = 1, entry.n_out or 1 do near(tensors.hold(out[i - 1]), wanted[i], entry.ulps, what) end
  tensors.release_all()
end

local function has_elements(sample)
  for _, shape in ipairs(sample) do
    if shape and reference.count(shape) == 0 then return false end
  end
  return not sample.args or sample.args.rows ~= 0 -- of the image or the weight that comes out
end

local function fits(layout, sample)
  for _, shape in ipairs(sample) do
    if shape and not layout.fits(shape) then return false end
  end
  return true
end

describe('cuDNN in the simulator', function()
  local modes = C.rg_device_modes_now()

  modes.autotune = 2 -- else what comes once is our own kernels' (dnn_due_spec.lua)

  after_each(function()
    modes.vendor, modes.autotune, modes.deterministic, modes.tf32 = 1, 2, 0, 0
    ffi.C.unsetenv 'RG_SIM_DNN_NOTE'
    tensors.release_all()
  end)

  it('is there', function()
    assert.are.equal('simulated', os.getenv('RIDGE_CUDNN'))
    assert.are_not.equal(0, tensors.DEVICE)
  end)

  for _, name in ipairs { 'conv2d', 'conv2d_back_data', 'conv2d_back_weight' } do
    local entry = cases[name]

    it('does every ' .. name .. ' but in f64', function()
      local calls = 0
      local found = ways(function()
        for _, dtype in ipairs(TYPES) do
          for _, sample in ipairs(entry.samples) do
            for _, layout in ipairs(tensors.LAYOUTS) do
              if has_elements(sample) and fits(layout, sample) then
                try(entry, sample, dtype, layout, dtype .. ' ' .. layout.name)
                calls = calls + 1
              end
            end
          end
        end
      end)
      assert.is_true(calls > 60)
      assert.are.same({ cudnn = calls }, found[name])
      found = ways(function()
        try(entry, entry.samples[1], 'f64', tensors.LAYOUTS[1], 'f64')
      end)
      assert.is_nil(found[name].cudnn)
    end)
  end

  it('takes weights and biases that are wider than the images under autocast', function()
    local entry = cases.conv2d
    local found = ways(function()
      for _, act in ipairs { 0, 2 } do
        for _, nhwc in ipairs { false, true } do
          local x = nhwc and { 2, 5, 6, 3 } or { 2, 3, 5, 6 }
          local list = { input(x, 'bf16'), input({ 4, 3, 3, 3 }, 'f32'), input({ 4 }, 'f32') }
          local t = {}
          for i = 1, 3 do t[i] = tensors.make(list[i], list[i].shape, list[i].dtype) end
          local args = { act = act, nhwc = nhwc or nil }
          local out = ffi.new('rg_tensor *[1]')
          local before = C.rg_autocast_set(tensors.CODES.bf16)
          local status = entry.call(C, t, args, out)
          C.rg_autocast_set(before)
          tensors.check(status)
          for i = 2, 3 do list[i].dtype = 'bf16' end
          near(tensors.hold(out[0]), entry.reference(list, args)[1], 4, 'autocast')
        end
      end
    end)
    assert.are.same({ cudnn = 4 }, found.conv2d)
  end)

  it('computes activations of large sums', function()
    local function ones(shape) -- one channel passed on as it is
      local x = reference.new(shape, 'bf16')
      x[1] = 1
      return x
    end
    local values = { -1e30, -1000, -100, -50, 0, 50, 100, 1000, 1e30 }
    local found = ways(function()
      for act = 1, 5 do
        for _, nhwc in ipairs { false, true } do
          local x = reference.new(nhwc and { 1, 3, 3, 1 } or { 1, 1, 3, 3 }, 'bf16')
          for i = 1, 9 do x[i] = reference.convert(values[i], 'bf16') end
          local list = { x, ones { 1, 1, 1, 1 }, reference.new({ 1 }, 'bf16') }
          list[3][1] = 0
          local t = {}
          for i = 1, 3 do t[i] = tensors.make(list[i], list[i].shape, 'bf16') end
          local args, out = { act = act, nhwc = nhwc or nil }, ffi.new 'rg_tensor *[1]'
          tensors.check(cases.conv2d.call(C, t, args, out))
          near(tensors.hold(out[0]), cases.conv2d.reference(list, args)[1], 4, 'act ' .. act)
        end
      end
    end)
    assert.are.same({ cudnn = 10 }, found.conv2d)
  end)

  -- The numbers of cudnnBackendNumericalNote_t, and where an engine with each may run: in f32, in
  -- f32 where TF32 is allowed, in bf16, and where the bits have to stay the same.
  it('takes no engine with a note that says of it what is not wanted', function()
    local NOTES = {
      [0] = { 'tensor cores', false, true, true, false },
      { 'down convert', false, true, false, false },
      { 'reduced precision', false, false, false, false }, { 'fft', false, true, false, false },
      { 'nondeterministic', true, true, true, false }, { 'winograd', false, true, false, false },
      { 'winograd 4x4', false, true, false, false }, { 'winograd 6x6', false, true, false, false },
      { 'winograd 13x13', false, true, false, false },
    }
    local side = 3
    for note = 0, #NOTES do
      ffi.C.setenv('RG_SIM_DNN_NOTE', tostring(note), 1)
      for case = 1, 4 do
        side = side + 1 -- an image that no plan was made for before
        modes.tf32, modes.deterministic = case == 2 and 1 or 0, case == 4 and 1 or 0
        local dtype = case == 3 and 'bf16' or 'f32'
        local x, w = input({ 1, 1, side, 3 }, dtype), input({ 1, 1, 2, 2 }, dtype)
        local out = ffi.new('rg_tensor *[1]')
        local found = ways(function()
          local t = { tensors.make(x, x.shape, dtype), tensors.make(w, w.shape, dtype), false }
          tensors.check(cases.conv2d.call(C, t, {}, out))
          tensors.hold(out[0])
        end)
        assert.are.equal(NOTES[note][1 + case], found.conv2d.cudnn == 1,
          NOTES[note][1] .. ', case ' .. case)
      end
    end
  end)

  -- What cuDNN does not fuse is a pass of our own over its sums: in packs of 16 bytes where these
  -- lie so, a thread each, in as many blocks as that takes.
  it('leaves activations to a pass that has a thread for each pack', function()
    local plugin = ffi.load(os.getenv 'RIDGE_GPU')
    local text = ffi.new('char[?]', 65536)
    local function blocks(side, channels, nhwc)
      local x = nhwc and { 1, side, side, 1 } or { 1, 1, side, side }
      local list = { input(x, 'f32'), input({ channels, 1, 1, 1 }, 'f32') }
      local t = {}
      for i = 1, 2 do t[i] = tensors.make(list[i], list[i].shape, 'f32') end
      local args, out = { act = 4, nhwc = nhwc or nil }, ffi.new 'rg_tensor *[1]'
      plugin.rgsim_launched(text, 65536)
      tensors.check(cases.conv2d.call(C, t, args, out))
      near(tensors.hold(out[0]), cases.conv2d.reference(list, args)[1], 8, 'tanh')
      return ffi.string(text, plugin.rgsim_launched(text, 65536)):match
        '(%d+) 1 1\t256 1 1\t0\t[^\n]*k_conv2d_epilogue'
    end
    for _, nhwc in ipairs { false, true } do
      assert.are.equal('1', blocks(16, 4, nhwc)) -- 256 packs of four
      assert.are.equal('2', blocks(18, 4, nhwc))
    end
    assert.are.equal('4', blocks(17, 3)) -- 867 elements, which no pack divides
  end)

  -- A view from `start` on along an axis; x is cut likewise.
  local function narrowed(x, axis, start, size)
    local out = ffi.new('rg_tensor *[1]')
    tensors.check(C.rg_narrow(tensors.make(x, x.shape, x.dtype), axis, start, size, 1, out))
    return tensors.hold(out[0])
  end

  it('takes tensors that begin anywhere', function()
    local whole = input({ 3, 1, 3, 3 }, 'f32')
    local x = { shape = { 2, 1, 3, 3 }, dtype = 'f32', unpack(whole, 10) }
    local w = input({ 2, 1, 2, 2 }, 'f32')
    local out = ffi.new('rg_tensor *[1]')
    local found = ways(function()
      local t = { narrowed(whole, 0, 1, 2), tensors.make(w, w.shape, 'f32'), false }
      tensors.check(cases.conv2d.call(C, t, {}, out))
      near(tensors.hold(out[0]), cases.conv2d.reference({ x, w }, {})[1], 4, 'narrowed')
    end)
    assert.are.same({ cudnn = 1 }, found.conv2d)
  end)

  it('does a convolution whose result is one number', function()
    local found = ways(function()
      try(cases.conv2d, { { 1, 1, 2, 2 }, { 1, 1, 2, 2 }, args = {} }, 'f32', tensors.LAYOUTS[1])
      try(cases.conv2d_back_weight, { { 1, 1, 2, 2 }, { 1, 1, 2, 2 },
        args = { rows = 1, columns = 1 } }, 'f32', tensors.LAYOUTS[1])
    end)
    assert.are.same({ cudnn = 1 }, found.conv2d)
    assert.are.same({ cudnn = 1 }, found.conv2d_back_weight)
  end)

  it('is left alone where ridge was told so', function()
    modes.vendor = 0
    local found = ways(function()
      try(cases.conv2d, cases.conv2d.samples[1], 'f32', tensors.LAYOUTS[1], 'own')
    end)
    assert.is_nil(found.conv2d.cudnn)
  end)

  it('works without timing, and with the same bits', function()
    for _, mode in ipairs { 'autotune', 'deterministic' } do
      modes[mode] = mode == 'deterministic' and 1 or 0
      local function once()
        try(cases.conv2d, { { 3, 2, 6, 7 }, { 4, 2, 3, 3 }, { 4 }, args = {} }, 'f32',
          tensors.LAYOUTS[1], mode)
      end
      once()
      assert.are.same({ cudnn = 1 }, ways(once).conv2d)
    end
  end)

  -- -- Attention -----------------------------------------------------------------------------

  local function shape_of(lead, rows, cols)
    local shape = { unpack(lead) }
    shape[#shape + 1], shape[#shape + 2] = rows, cols
    return shape
  end

  -- log(sum(exp(scale q k'))) of each query.
  local function lse_of(q, k, lead, n, m, d, causal, scale)
    local lse = reference.new(shape_of(lead, n, 1), 'f32')
    lse.shape[#lse.shape] = nil
    for i = 0, reference.count(lse.shape) - 1 do
      local head, row, sum = math.floor(i / n), i % n, 0
      for j = 0, (causal and math.min(row, m - 1) or m - 1) do
        local s = 0
        for l = 1, d do s = s + q[i * d + l] * k[(head * m + j) * d + l] end
        sum = sum + math.exp(s * scale)
      end
      lse[i + 1] = math.log(sum)
    end
    return lse
  end

  local HEADS = {
    { {}, 9, 9, 8, 8 }, { { 3 }, 7, 12, 16, 8, causal = true },
    { { 2, 3 }, 12, 7, 8, 24, causal = true, scale = 0.3 }, { { 2, 1, 2 }, 5, 5, 16, 16 },
    { { 2, 2 }, 1, 11, 64, 64 },
  }

  for _, deterministic in ipairs { 0, 1 } do
    it('does attention and its gradients' .. (deterministic == 1 and ', the same bits' or ''),
      function()
        modes.deterministic = deterministic
        local calls = 0
        local found = ways(function()
          for _, h in ipairs(HEADS) do
            for _, dtype in ipairs { 'f16', 'bf16' } do
              local lead, n, m, d, e = unpack(h, 1, 5)
              local scale = h.scale or 1 / math.sqrt(d)
              local q, k = input(shape_of(lead, n, d), dtype, 0.25),
                input(shape_of(lead, m, d), dtype, 0.25)
              local v, dy = input(shape_of(lead, m, e), dtype), input(shape_of(lead, n, e), dtype)
              local what = ('%s %d heads axes %d x %d x %d'):format(dtype, #lead, n, m, d)
              local t, out = {}, ffi.new('rg_tensor *[3]')
              for i, x in ipairs { q, k, v } do t[i] = tensors.make(x, x.shape, dtype) end
              tensors.check(cases.attention.call(C, t, h, out))
              local y = tensors.hold(out[0])
              near(y, reference.attention({ q, k, v }, h)[1], 8, what)
              local lse = lse_of(q, k, lead, n, m, d, h.causal, scale)
              t[4], t[5] = y, tensors.make(lse, lse.shape, 'f32')
              t[6] = tensors.make(dy, dy.shape, dtype)
              tensors.check(cases.attention_back.call(C, t, h, out))
              local wanted =
                reference.attention_back({ q, k, v, tensors.read(y), tensors.read(t[5]), dy }, h)
              for i = 1, 3 do near(tensors.hold(out[i - 1]), wanted[i], 8, what .. ' back') end
              calls = calls + 1
            end
          end
        end)
        assert.are.same({ cudnn = calls }, found.attention)
        assert.are.same({ cudnn = calls }, found.attention_back)
      end)
  end

  it('leaves masks, f32, and rows it cannot load to our own kernels', function()
    local entry = cases.attention
    local found = ways(function()
      for _, sample in ipairs(entry.samples) do
        if sample.args.mask and has_elements(sample) then
          try(entry, sample, 'bf16', tensors.LAYOUTS[1], 'mask')
        end
      end
      try(entry, { { 9, 8 }, { 9, 8 }, { 9, 8 }, args = {} }, 'f32', tensors.LAYOUTS[1], 'f32')
      try(entry, { { 9, 6 }, { 9, 6 }, { 9, 8 }, args = {} }, 'bf16', tensors.LAYOUTS[1], 'rows')
      for i = 2, 4 do
        try(entry, { { 9, 8 }, { 9, 8 }, { 9, 8 }, args = {} }, 'bf16', tensors.LAYOUTS[i], 'steps')
      end
      local q = narrowed(input({ 9, 16 }, 'bf16'), 1, 4, 8) -- 8 bytes off
      local out = ffi.new('rg_tensor *[1]')
      tensors.check(entry.call(C, { q, q, q }, {}, out))
      tensors.hold(out[0])
    end)
    assert.is_nil(found.attention.cudnn)
  end)
end)
