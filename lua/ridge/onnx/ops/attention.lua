-- SPDX-License-Identifier: MIT
--- ONNX's attention and rotary embedding.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local record = require 'ridge.onnx.ops.record'

local M = {}

-- -- Rotary embedding ---------------------------------------------------------------------------

function M.RotaryEmbedding(n, x, cos, sin, position)
  local shape, flat = x.shape, x.ndim == 3
  if flat then -- [batch x time x heads * size]
    local heads = n:int 'num_heads'
    x = x:reshape(shape[1], shape[2], heads, shape[3] / heads)
  else
    x = x:transpose(2, 3)
  end
  local size = x.shape[4]
  local turned = n:int('rotary_embedding_dim', 0)
  if turned == 0 then turned = size end
  local half = turned / 2
  if position then
    local at = position:to 'i64'
    local function rows(t)
      return t:take(at:reshape(-1)):reshape(at.shape[1], at.shape[2], t.shape[2])
    end
    cos, sin = rows(cos), rows(sin)
  end
  cos, sin = cos:narrow(3, 1, half):unsqueeze(3), sin:narrow(3, 1, half):unsqueeze(3)
  local part, interleaved = x:narrow(4, 1, turned), n:int('interleaved', 0) == 1
  local a, b
  if interleaved then
    a, b = part:narrow(4, 1, half, 2), part:narrow(4, 2, half, 2)
  else
    a, b = part:narrow(4, 1, half), part:narrow(4, half + 1, half)
  end
  local p, q = a * cos - b * sin, a * sin + b * cos
  local y
  if interleaved then
    local s = p.shape
    y = ridge.concat({ p:unsqueeze(5), q:unsqueeze(5) }, 5):reshape(s[1], s[2], s[3], turned)
  else
    y = ridge.concat({ p, q }, 4)
  end
  if turned < size then y = ridge.concat({ y, x:narrow(4, turned + 1, size - turned) }, 4) end
  return flat and y:reshape(shape) or y:transpose(2, 3)
end

-- -- Attention ----------------------------------------------------------------------------------

local function split(x, heads)
  if x.ndim == 4 then return x end
  local s = x.shape
  return x:reshape(s[1], s[2], heads, s[3] / heads):transpose(2, 3)
end

-- Heads of keys once after the other, as often as there are more of queries: what ONNX's function
-- of Attention says.
local function merged(y, flat)
  if not flat then return y end
  local s = y.shape
  return y:transpose(2, 3):reshape(s[1], s[3], s[2] * s[4])
end

local function repeated(x, times)
  if times == 1 then return x end
  local s = x.shape
  return x:reshape(s[1], 1, s[2], s[3], s[4]):expand(s[1], times, s[2], s[3], s[4])
    :reshape(s[1], s[2] * times, s[3], s[4])
end

-- What is added to the scores: the mask, what lies in the future, what is behind the last key.
local function bias_of(n, q, keys, mask, filled)
  local time, bias = q.shape[3], nil
  local low = kit.full(-math.huge, {}, q)
  local function hide(shown)
    local b = ridge.where(shown, kit.full(0, {}, q), low)
    bias = bias and bias + b or b
  end
  if mask then
    local missing = keys - mask.shape[mask.ndim]
    if missing > 0 then -- keys behind the mask are not seen
      local shape = mask.shape
      shape[mask.ndim] = missing
      local rest = mask.dtype == 'bool' and ridge.zeros(shape, { dtype = 'bool' })
        or kit.full(-math.huge, shape, mask)
      mask = ridge.concat({ mask, rest }, mask.ndim)
    end
    if mask.dtype == 'bool' then hide(mask) else bias = mask:to(q.dtype) end
  end
  local column = kit.counting(keys):reshape(1, keys)
  if n:int('is_causal', 0) == 1 then
    hide(column:le(kit.counting(time):reshape(time, 1))) -- from the upper left, past or not
  end
  if filled then hide(column:lt(filled:reshape(-1, 1, 1, 1))) end
  return bias
end

function M.Attention(n, q, k, v, mask, past_k, past_v, filled)
  local flat = q.ndim == 3
  q = split(q, flat and n:int 'q_num_heads')
  k, v = split(k, flat and n:int 'kv_num_heads'), split(v, flat and n:int 'kv_num_heads')
  if past_k then
    k, v = ridge.concat({ past_k, k }, 3), ridge.concat({ past_v, v }, 3)
  end
  local present_k, present_v = k, v
  local times = q.shape[2] / k.shape[2]
  k, v = repeated(k, times), repeated(v, times)
  local scale = n:float('scale', 1 / math.sqrt(q.shape[4]))
  if scale == 0 then scale = 1 / math.sqrt(q.shape[4]) end
  local causal = n:int('is_causal', 0) == 1
  local plain = not mask and not filled and n:float('softcap', 0) == 0 and not n:wants(4)
    and not n:has 'softmax_precision' and record.alike(q, k, v)
  if plain then
    return merged(record.attention(q, k, v, scale, causal), flat), present_k, present_v
  end
  local root = math.sqrt(scale)
  local exact = n:has 'softmax_precision' and kit.TYPES[n:int 'softmax_precision'] or q.dtype
  local scores = (q * root):matmul((k * root):transpose(3, 4))
  local mode, seen = n:int('qk_matmul_output_mode', 0), nil
  if mode == 0 then seen = scores end
  local bias = bias_of(n, q, k.shape[3], mask, filled)
  local cap = n:float('softcap', 0)
  local biased = bias and scores + bias or scores
  if mode == 1 then seen = biased end
  if cap > 0 then biased = (biased / cap):tanh() * cap end
  if mode == 2 then seen = biased end
  local weights
  if bias then -- a row that sees nothing is nothing
    local most = biased:max(4, true)
    local none = most:eq(-math.huge)
    local soft = biased:to(exact):softmax(4):to(q.dtype)
    weights = ridge.where(none, kit.full(0, {}, q), soft)
  else
    weights = biased:to(exact):softmax(4):to(q.dtype)
  end
  if mode == 3 then seen = weights end
  return merged(weights:matmul(v), flat), present_k, present_v, seen
end

return M
