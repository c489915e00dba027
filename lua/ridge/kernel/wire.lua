-- SPDX-License-Identifier: MIT
--- Messages of Jupyter as frames, signed (Jupyter's "Messaging", version 5): who they are for, a
--- mark, the signature, and four texts of JSON: header, parent's header, metadata, content.

local bit = require 'bit'
local canonical = require 'ridge.store.canonical'
local sha256 = require 'ridge.store.sha256'

local M = {}

local MARK = '<IDS|MSG>'
local BLOCK = 64 -- bytes that SHA-256 takes at a time

--- The version of the protocol that is spoken.
M.VERSION = '5.3'

local function with_each(key, value)
  return (key:gsub('.', function(c) return string.char(bit.bxor(c:byte(), value)) end))
end

--- What signs messages: HMAC of SHA-256 (RFC 2104).
---@param key string '' signs nothing
---@return fun(parts: string[]): string digits
function M.hmac(key)
  if key == '' then return function() return '' end end
  if #key > BLOCK then key = sha256.digest(key) end
  key = key .. ('\0'):rep(BLOCK - #key)
  local inner, outer = with_each(key, 0x36), with_each(key, 0x5c)
  return function(parts)
    return sha256.hex(sha256.digest(outer .. sha256.digest(inner .. table.concat(parts))))
  end
end

-- Compared to the end, so that the time it takes tells nothing of where they differ.
local function same(a, b)
  if #a ~= #b then return false end
  local differs = 0
  for i = 1, #a do differs = bit.bor(differs, bit.bxor(a:byte(i), b:byte(i))) end
  return differs == 0
end

---@class ridge.kernel.Message
---@field to string[] frames before the mark: who it comes from, or whom it is for
---@field header string JSON
---@field parent string JSON
---@field metadata string JSON
---@field content string JSON

--- A message as frames.
---@param message ridge.kernel.Message
---@param sign fun(parts: string[]): string
---@return string[] frames
function M.frames(message, sign)
  local parts = { message.header, message.parent, message.metadata, message.content }
  local frames = {}
  for i, each in ipairs(message.to) do frames[i] = each end
  frames[#frames + 1] = MARK
  frames[#frames + 1] = sign(parts)
  for _, part in ipairs(parts) do frames[#frames + 1] = part end
  return frames
end

local function object(text)
  local ok, value = pcall(canonical.decode, text)
  return ok and type(value) == 'table' and getmetatable(value) == nil and value or nil -- no list
end

--- A message out of frames; nil, and what is wrong with it. Frames behind the content are buffers,
--- which nothing here takes.
---@param frames string[]
---@param sign fun(parts: string[]): string
---@return ridge.kernel.Message|nil message
---@return string|table reason, or the header
---@return table|nil content
function M.read(frames, sign)
  local message, at = { to = {} }, 1
  while frames[at] and frames[at] ~= MARK do
    message.to[at] = frames[at]
    at = at + 1
  end
  if #frames < at + 5 then
    return nil, ('%d frames behind the mark, not 5'):format(math.max(0, #frames - at))
  end
  local parts = { unpack(frames, at + 2, at + 5) }
  if not same(sign(parts), frames[at + 1]) then return nil, 'a wrong signature' end
  local header, content = object(parts[1]), object(parts[4])
  if not header or not content or not object(parts[2]) or not object(parts[3]) then
    return nil, 'a part that is no JSON object'
  end
  if type(header.msg_type) ~= 'string' or type(header.msg_id) ~= 'string' then
    return nil, 'a header without msg_type and msg_id'
  end
  message.header, message.parent, message.metadata, message.content = unpack(parts)
  return message, header, content
end

local count = 0

--- The header of a new message.
---@param kind string 'status'
---@param session string of the kernel
---@param state string which Lua state of the kernel makes it: each counts by itself
---@return string json
function M.header(kind, session, state)
  count = count + 1
  return canonical.encode { msg_id = ('%s_%s%d'):format(session, state, count), msg_type = kind,
    session = session, username = 'ridge', version = M.VERSION,
    date = os.date('!%Y-%m-%dT%H:%M:%S.000000Z') }
end

--- Texts as one.
---@param parts string[]
---@return string
function M.pack(parts)
  local out = {}
  for i, part in ipairs(parts) do out[i] = ('%d:%s'):format(#part, part) end
  return table.concat(out)
end

--- The texts again.
---@param text string
---@return string[] parts
function M.unpack(text)
  local parts, at = {}, 1
  while at <= #text do
    local colon = text:find(':', at, true)
    local n = tonumber(text:sub(at, colon - 1))
    parts[#parts + 1] = text:sub(colon + 1, colon + n)
    at = colon + n + 1
  end
  return parts
end

return M
