-- SPDX-License-Identifier: MIT
-- cases_element: sample inputs of functions of one and two elements beyond the first ones: inverse
-- and hyperbolic functions, activations, remainders, bits (see cases.lua).

local INF, NAN = math.huge, 0 / 0
local EDTYPE, EARG = -2, -4

return function(M, unary, binary, join)
  local cases, tensors = M.cases, M.tensors
  local FLOATS, INTEGERS = tensors.FLOATS, tensors.INTEGERS

  -- -- One input ----------------------------------------------------------------------------------

  unary('trunc', true, 0.5)
  for _, name in ipairs { 'exp2', 'expm1', 'log2', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh',
    'asinh', 'acosh', 'atanh' } do
    unary(name, false, 4)
  end
  cases.tan.special = cases.sin.special -- see there
  for _, name in ipairs { 'selu', 'mish', 'softsign', 'hardsigmoid', 'hardswish' } do
    unary(name, false, 8)
  end
  unary('relu6', true, 0.5)
  cases.mish.special = cases.silu.special -- see there

  -- -- Two inputs ---------------------------------------------------------------------------------

  local ARITHMETIC = join(FLOATS, INTEGERS)
  for _, name in ipairs { 'remainder', 'fmod', 'floor_divide', 'trunc_divide' } do
    binary(name, ARITHMETIC, 1)
    cases[name].special = { 0, -0, 1, -1, INF, -INF, NAN, 2, -3, 0.5, 0.1, -7.7, 1e30, 1e-30 }
    table.insert(cases[name].bad, { { { 2 }, { 2 } }, { 'bool', 'bool' }, {}, EDTYPE })
    table.insert(cases[name].bad, { { { 2 } }, { 'i8' }, { value = 300 }, EARG })
  end
  binary('atan2', tensors.ALL, 4)
  binary('prelu', tensors.ALL, 0.5)
  binary('threshold', tensors.ALL, 0.5)
  binary('elu', tensors.ALL, 8)
  binary('celu', tensors.ALL, 8)

  -- Of whole numbers: without fractions in the second place, and without floats beside them.
  local function bits(name, dtypes)
    binary(name, dtypes, 0)
    local entry, samples = cases[name], {}
    for _, sample in ipairs(entry.samples) do
      if not sample.args or sample.args.value % 1 == 0 then samples[#samples + 1] = sample end
    end
    entry.samples, entry.special = samples, nil
    entry.mixed = { { 'u8', 'i8' }, { 'bool', 'i64' }, { 'i32', 'u8' }, { 'i64', 'i32' } }
    entry.bad = join(entry.bad, { { { { 2 }, { 2 } }, { 'f32', 'i32' }, {}, EDTYPE },
      { { { 2 } }, { 'f16' }, { value = 1 }, EDTYPE },
      { { { 2 } }, { 'i32' }, { value = 0.5 }, EARG },
      { { { 2 } }, { 'u8' }, { value = -1 }, EARG } })
  end
  local WHOLE = join(INTEGERS, { 'bool' })
  for _, name in ipairs { 'bitwise_and', 'bitwise_or', 'bitwise_xor' } do bits(name, WHOLE) end
  for _, name in ipairs { 'bitwise_left_shift', 'bitwise_right_shift' } do
    bits(name, INTEGERS)
    table.insert(cases[name].bad, { { { 2 }, { 2 } }, { 'bool', 'bool' }, {}, EDTYPE })
  end

  unary('bitwise_not', false, 0)
  cases.bitwise_not.dtypes, cases.bitwise_not.special = WHOLE, nil
  cases.bitwise_not.bad = { { { { 2 } }, { 'f32' }, {}, EDTYPE },
    { { { 2 } }, { 'bf16' }, {}, EDTYPE } }
end
