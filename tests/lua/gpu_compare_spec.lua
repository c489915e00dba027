-- SPDX-License-Identifier: MIT
-- scripts/gpu/compare.lua: ridge's cases beside PyTorch's, as a table.

local BENCH = [[
{"case": "copy", "us": 500.0, "min_us": 1, "max_us": 2, "n": 3, "gb_s": 3600}
{"case": "softmax_bf16", "us": 80.0, "min_us": 79, "max_us": 81, "n": 9, "gb_s": 2000}
{"case": "linear_64_b1_f32", "us": 3.0, "min_us": 2, "max_us": 4, "n": 9, "tflops": 1}
{"case": "sketched_1_32_bf16", "us": 10.0, "min_us": 9, "max_us": 11, "n": 9}
{"case": "sketched_2_32_bf16", "us": 80.0, "min_us": 9, "max_us": 11, "n": 9}
{"case": "sketched_1_32_seed_bf16", "us": 60.0, "min_us": 9, "max_us": 11, "n": 9}
{"case": "sum_f32", "us": 4.0, "min_us": 4, "max_us": 4, "n": 9}
{"case": "adamw_f32", "error": "out of memory"}
]]
local TORCH = [[
{"torch": "2.11.0"}
{"case": "copy", "us": 450.5, "min_us": 1, "max_us": 2, "n": 3, "gb_s": 4000.0}
{"case": "copy_graph", "us": 700.0, "min_us": 1, "max_us": 2, "n": 3, "gb_s": 2500}
{"case": "softmax_bf16", "us": 200.0, "min_us": 1, "max_us": 2, "n": 3}
{"case": "softmax_bf16_graph", "error": "RuntimeError: \"a|b\" is not captured"}
{"case": "softmax_bf16_compiled", "us": 160.0, "min_us": 1, "max_us": 2, "n": 3}
{"case": "softmax_bf16_compiled_graph", "us": 100.0, "min_us": 1, "max_us": 2, "n": 3}
{"case": "sketched_1_32_bf16", "us": 40.0, "min_us": 1, "max_us": 2, "n": 3}
{"case": "sketched_2_32_bf16", "us": 80.0, "min_us": 1, "max_us": 2, "n": 3}
{"case": "sum_f32", "us": 8.0, "min_us": 8, "max_us": 8, "n": 3}
{"case": "adamw_f32", "us": 5e2, "min_us": 1, "max_us": 2, "n": 3}
]]

local function file_of(text)
  local path = os.tmpname()
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
  return path
end

local function compared(bench, torch)
  local pipe = assert(io.popen(('./ridge scripts/gpu/compare.lua %s %s 2>&1'):format(bench, torch)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('scripts/gpu/compare.lua', function()
  it('sets times beside each other, and takes the least of the others for the ratio', function()
    local bench, torch = file_of(BENCH), file_of(TORCH)
    local text = compared(bench, torch)
    assert.equal([[
| case | ridge us | torch eager | torch graph | torch compiled | ratio | of copy |
|---|---|---|---|---|---|---|
| copy | 500.0 | 450.5 | 700.0 |  | 1.11 | 90 % |
| softmax_bf16 | 80.0 | 200.0 | failed | 100.0 | 0.80 | 50 % |
| linear_64_b1_f32 | 3.0 |  |  |  |  |  |
| sketched_1_32_bf16 | 10.0 | 40.0 |  |  | 0.25 |  |
| sketched_2_32_bf16 | 80.0 | 80.0 |  |  | 1.00 |  |
| sketched_1_32_seed_bf16 | 60.0 | 40.0 |  |  | 1.50 |  |
| sum_f32 | 4.0 | 8.0 |  |  | 0.50 |  |
| adamw_f32 | failed | 500.0 |  |  |  |  |

- ridge is faster in 3 of 6 cases; ratio: its time over the least of theirs
- of copy: 4000 GB/s, read and written
- sketched layers whose signs are stored: 2 points, mean ratio 0.50
- softmax_bf16_graph: RuntimeError: \"a/b\" is not captured
- ridge adamw_f32: out of memory
]], text)
    os.remove(bench)
    os.remove(torch)
  end)

  it('says which file is not there', function()
    assert.matches('/no/such: No such file', compared('/no/such', '/no/such'))
  end)
end)
