-- SPDX-License-Identifier: MIT
--- A page as one file: everything it shows is in it, nothing of it runs, and nothing that was
--- stored is a mark of HTML.
--
-- The Content-Security-Policy allows pictures that are data and the one style of the page, by its
-- hash; whatever a name in a database says, a browser loads and runs nothing.

local sha256 = require 'ridge.store.sha256'
local terminal = require 'ridge.plot.terminal'
local value = require 'ridge.show.value'

local M = {}

M.escape, M.base64 = value.escape, terminal.base64

local STYLE = [[
:root{color-scheme:light dark;--ink:#1d1d1b;--muted:#61615c;--paper:#fff;--rule:#d8d8d2}
@media (prefers-color-scheme:dark){:root{--ink:#e8e8e3;--muted:#a5a59e;--paper:#191a1c;
--rule:#3b3c3f}}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:72rem;background:var(--paper);
color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}
p,ul,dl{margin:.5rem 0}.muted{color:var(--muted)}.answer{font-size:1.1rem}
figure{margin:1rem 0}figure img{max-width:100%;height:auto;display:block}
figcaption{color:var(--muted);font-size:.9rem}
.wide{overflow-x:auto;border:1px solid var(--rule)}
table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.2rem .6rem;text-align:left;white-space:nowrap;border-bottom:1px solid var(--rule)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.t{white-space:normal;min-width:16rem}
pre{overflow-x:auto;border:1px solid var(--rule);padding:.6rem;font-size:.85rem;
white-space:pre-wrap}
a{color:inherit}dt{font-weight:600}dd{margin:0 0 .4rem 1rem}
]]

--- Bytes as a link or the source of a picture.
---@param kind string 'image/png'
---@param bytes string
---@return string uri
function M.data(kind, bytes) return ('data:%s;base64,%s'):format(kind, M.base64(bytes)) end

local LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

--- What base64 stands for.
---@param text string
---@return string bytes
function M.bytes(text)
  local value_of, out = {}, {}
  for i = 1, #LETTERS do value_of[LETTERS:byte(i)] = i - 1 end
  for i = 1, #text - 3, 4 do
    local a, b, c, d = text:byte(i, i + 3)
    local x, y, z, w = value_of[a], value_of[b], value_of[c], value_of[d] -- nil: the = of the end
    out[#out + 1] = z and w and string.char(x * 4 + math.floor(y / 16),
      y % 16 * 16 + math.floor(z / 4), z % 4 * 64 + w)
      or z and string.char(x * 4 + math.floor(y / 16), y % 16 * 16 + math.floor(z / 4))
      or string.char(x * 4 + math.floor(y / 16))
  end
  return table.concat(out)
end

--- A text with no more than so many bytes, with "..." where something is missing.
---@param text string
---@param most integer
---@return string text
function M.cut(text, most)
  return #text <= most and text or text:sub(1, most) .. ' ...' -- a torn letter is escaped later
end

--- A word of a command as a shell reads it.
---@param text any
---@return string word
function M.shell(text)
  text = tostring(text)
  return text:find '^[%w_./:=@+-]+$' and text or "'" .. text:gsub("'", "'\\''") .. "'"
end

--- A whole page.
---@param title string
---@param body string[] pieces of HTML
---@return string html
function M.page(title, body)
  local policy = ("default-src 'none'; img-src data:; style-src 'sha256-%s'"):format(
    M.base64(sha256.digest(STYLE)))
  return table.concat({ '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta http-equiv="Content-Security-Policy" content="', policy, '">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<link rel="icon" href="data:,">\n', '<title>', M.escape(title), '</title>\n<style>', STYLE,
    '</style>\n</head>\n<body>\n', table.concat(body, '\n'), '\n</body>\n</html>\n' })
end

--- A heading and what stands under it; '' where that is nothing.
---@param name string
---@param ... string|nil pieces of HTML
---@return string html
function M.section(name, ...)
  local parts = {}
  for i = 1, select('#', ...) do
    local piece = select(i, ...)
    if piece and piece ~= '' then parts[#parts + 1] = piece end
  end
  if #parts == 0 then return '' end
  return ('<h2>%s</h2>\n%s'):format(M.escape(name), table.concat(parts, '\n'))
end

--- A paragraph of text.
---@param text string
---@param class string|nil
---@return string html
function M.p(text, class)
  return ('<p%s>%s</p>'):format(class and (' class="%s"'):format(class) or '', M.escape(text))
end

--- A table that scrolls by itself where it is wider than the page.
---@param heads string[]
---@param rows any[][] cells: texts and numbers; nil for nothing
---@param kinds table|nil by number of the column: 'n' to the right, 't' a text that may break
---@param most number|nil bytes of the rows at most
---@return string html '' without rows
---@return integer shown how many rows are in it
function M.table(heads, rows, kinds, most)
  if #rows == 0 then return '', 0 end
  kinds = kinds or {}
  local shown, bytes = 0, 0
  local parts = { '<div class="wide"><table><thead><tr>' }
  local function cell(tag, k, text)
    local class = kinds[k] and (' class="%s"'):format(kinds[k]) or ''
    parts[#parts + 1] = ('<%s%s%s>%s</%s>'):format(tag, tag == 'th' and ' scope="col"' or '', class,
      text == nil and '' or M.escape(text), tag)
  end
  for k, head in ipairs(heads) do cell('th', k, head) end
  parts[#parts + 1] = '</tr></thead><tbody>'
  for _, row in ipairs(rows) do
    local first = #parts + 1
    parts[first] = '<tr>'
    for k = 1, #heads do cell('td', k, row[k]) end
    parts[#parts + 1] = '</tr>\n'
    for i = first, #parts do bytes = bytes + #parts[i] end
    if bytes > (most or math.huge) then
      for i = #parts, first, -1 do parts[i] = nil end
      break
    end
    shown = shown + 1
  end
  parts[#parts + 1] = '</tbody></table></div>'
  return table.concat(parts), shown
end

--- Names and what they are, as a list.
---@param list table[] each { name, text }; those without a text are left out
---@return string html
function M.facts(list)
  local parts = {}
  for _, each in ipairs(list) do
    if each[2] and each[2] ~= '' then
      parts[#parts + 1] = ('<dt>%s</dt><dd>%s</dd>'):format(M.escape(each[1]), M.escape(each[2]))
    end
  end
  return #parts > 0 and ('<dl>%s</dl>'):format(table.concat(parts, '\n')) or ''
end

--- A text as it is written, behind a line that opens it.
---@param name string
---@param text string
---@return string html
function M.folded(name, text)
  return ('<details><summary>%s</summary><pre>%s</pre></details>'):format(M.escape(name),
    M.escape(text))
end

--- Commands to type.
---@param lines string[]
---@return string html
function M.commands(lines)
  return ('<pre>%s</pre>'):format(M.escape(table.concat(lines, '\n')))
end

return M
