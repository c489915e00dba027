-- SPDX-License-Identifier: MIT
-- cases_choice: sample inputs of choosing between tensors, and of answers about numbers (see
-- cases.lua).

local INF, NAN = math.huge, 0 / 0
local ESHAPE, EDTYPE = -1, -2

return function(M, unary)
  local cases, reference, tensors = M.cases, M.reference, M.tensors

  for _, name in ipairs { 'logical_not', 'isnan', 'isinf', 'isposinf', 'isneginf', 'isfinite' } do
    unary(name, false, 0)
    cases[name].special = { 0, -0, 1, -1, INF, -INF, NAN, 0.5, 1e-41, 1e30, -1e30, 65504, 3.4e38,
      1.7e308, -1.7e308 }
  end

  cases.where = {
    call = function(C, t, _, out) return C.rg_where(t[1], t[2], t[3], out) end,
    reference = reference.where,
    -- what is no number is taken, and left, like any other
    prepare = function(list)
      for k = 2, 3 do
        for i, v in ipairs(list[k].dtype:find 'f' and #list[k] > 4 and { NAN, -0.0, INF } or {}) do
          list[k][i + k - 2] = v
        end
      end
    end,
    inputs = { 'bool' },
    samples = { { {}, {}, {} }, { { 7 }, { 7 }, { 7 } }, { { 7 }, {}, { 7 } }, { { 7 }, { 7 }, {} },
      { { 7 }, {}, {} }, { {}, { 7 }, { 7 } }, { { 0 }, { 1 }, {} }, { { 2, 0 }, { 1 }, { 2, 1 } },
      { { 4, 70 }, { 70 }, { 4, 1 } }, { { 4, 1 }, { 4, 70 }, { 1, 70 } },
      { { 4, 70 }, { 4, 1 }, {} }, { { 1, 70 }, { 4, 70 }, { 4, 70 } },
      { { 2, 1, 5 }, { 3, 1 }, { 2, 3, 5 } }, { { 3, 5, 1 }, { 3, 1, 40 }, { 5, 1 } },
      { { 1300 }, { 1300 }, { 1300 } }, { { 33, 40 }, { 33, 1 }, { 40 } },
      -- of several pieces of work
      { { 20507 }, { 20507 }, {}, only = 'f16' }, { { 3, 1 }, { 3, 9001 }, { 9001 }, only = 'f32' },
      { { 9001, 3 }, { 3 }, { 9001, 1 }, only = 'i64' } },
    dtypes = tensors.EVERY,
    mixed = { { 'bool', 'f32', 'f16' }, { 'bool', 'i32', 'f32' }, { 'bool', 'u8', 'i8' },
      { 'bool', 'bool', 'bf16' } },
    ulps = 0,
    large = { { { 1100, 1000 }, { 1100, 1000 }, { 1000 } } },
    bad = { { { { 2 }, { 2 }, { 2 } }, { 'f32', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2 }, { 2 }, { 2 } }, { 'i64', 'f32', 'f32' }, {}, EDTYPE },
      { { { 2 }, { 3 }, { 1 } }, { 'bool', 'f32', 'f32' }, {}, ESHAPE },
      { { { 1 }, { 3 }, { 2 } }, { 'bool', 'f32', 'f32' }, {}, ESHAPE },
      { { { 2 }, { 2 }, { 2 } }, { 'bool', 'f32', 'f8e4m3' }, {}, EDTYPE } },
  }
end
