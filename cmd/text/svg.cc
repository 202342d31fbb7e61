#include "cmd/text/svg.h"

#include "base/format.h"
#include "base/markup.h"

namespace collctl::cmd {
namespace {

// Readable on light and dark pages: viewers that know the reader's choice get the second set. A
// value far from usual (heat7) is dark on a light page, and bright on a dark one.
constexpr const char* kStyle = R"(
.page{fill:#ffffff}
text{fill:#1c2430;font-family:"DejaVu Sans",Verdana,"Segoe UI",Helvetica,Arial,sans-serif}
text.muted{fill:#566273}
text.fault{fill:#c4162a;font-weight:bold}
rect{stroke-width:1.2}
rect.cpu{fill:#f5f7fa;stroke:#b9c2ce}
rect.head{fill:#e3e7ee;stroke:#8d99ab}
rect.bridge{fill:#e9edf3;stroke:#8d99ab}
rect.gpu{fill:#e0f2dc;stroke:#3f8f33}
rect.nic{fill:#e1edfb;stroke:#3b78b8}
rect.other{fill:#f0f0f0;stroke:#9a9a9a}
rect.nvs{fill:#c9e8c1;stroke:#3f8f33}
rect.assumed{stroke-dasharray:5 4}
path{fill:none;stroke-linecap:butt;stroke-linejoin:round}
path.trunk,path.pci{stroke:#7b8798}
path.sys{stroke:#9aa4b2}
path.nvl{stroke:#4fa341}
path.xgmi{stroke:#d9772b}
path.c2c{stroke:#8a4fbf}
path.ring{stroke:#e0489b;stroke-linecap:round}
path.fault{stroke:#d11f2f}
path.expected{stroke:#566273;stroke-dasharray:6 5}
path.curve0{stroke:#2b6cb0}
path.curve1{stroke:#d9772b}
path.curve2{stroke:#3f8f33}
path.curve3{stroke:#c4162a}
path.curve4{stroke:#8a4fbf}
path.curve5{stroke:#0d9488}
path.curve6{stroke:#e0489b}
path.curve7{stroke:#8a6d1a}
rect.heat{fill:none;stroke:#9aa4b2;stroke-width:0.4}
rect.broken{fill:#c4162a;stroke:#c4162a}
text.onbroken{fill:#ffffff;font-weight:bold}
rect.heat0{fill:#eef4fb;stroke:#eef4fb}
rect.heat1{fill:#d6e6f5;stroke:#d6e6f5}
rect.heat2{fill:#b5d3ec;stroke:#b5d3ec}
rect.heat3{fill:#8bb9e0;stroke:#8bb9e0}
rect.heat4{fill:#5d9ad0;stroke:#5d9ad0}
rect.heat5{fill:#367abb;stroke:#367abb}
rect.heat6{fill:#1d5a9c;stroke:#1d5a9c}
rect.heat7{fill:#0c3d75;stroke:#0c3d75}
text.onheat0,text.onheat1,text.onheat2,text.onheat3{fill:#1c2430}
text.onheat4,text.onheat5,text.onheat6,text.onheat7{fill:#ffffff}
rect.fault{stroke:#d11f2f;stroke-width:2.4}
@media (prefers-color-scheme:dark){
.page{fill:#14181e}
text{fill:#e7ebf1}
text.muted{fill:#a3aebd}
text.fault{fill:#ff7b86}
text.onheat0,text.onheat1,text.onheat2,text.onheat3{fill:#e7ebf1}
text.onheat4,text.onheat5,text.onheat6,text.onheat7{fill:#10151c}
text.onbroken{fill:#ffffff}
rect.heat{stroke:#3d4856}
rect.heat0{fill:#1d2631;stroke:#1d2631}
rect.heat1{fill:#233446;stroke:#233446}
rect.heat2{fill:#2a455f;stroke:#2a455f}
rect.heat3{fill:#335b80;stroke:#335b80}
rect.heat4{fill:#4f86b8;stroke:#4f86b8}
rect.heat5{fill:#7fb0de;stroke:#7fb0de}
rect.heat6{fill:#b3d4f2;stroke:#b3d4f2}
rect.heat7{fill:#eef6ff;stroke:#eef6ff}
rect.cpu{fill:#1b2129;stroke:#3d4856}
rect.head{fill:#2a323d;stroke:#5c6878}
rect.bridge{fill:#28303a;stroke:#5c6878}
rect.gpu{fill:#1d3a1a;stroke:#5fb350}
rect.nic{fill:#182f49;stroke:#5596d6}
rect.other{fill:#262626;stroke:#6a6a6a}
rect.nvs{fill:#2a5424;stroke:#5fb350}
rect.fault{stroke:#ff5563}
path.trunk,path.pci{stroke:#8794a6}
path.sys{stroke:#6b7685}
path.expected{stroke:#a3aebd}
path.fault{stroke:#ff5563}
}
)";

std::string xml_escaped(const std::string& text) {
  // Control characters are no XML, and bytes beyond ASCII may be no UTF-8.
  return base::escaped_markup(text, [](char c) {
    return std::string(
        1, static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~' ? '?' : c);
  });
}

std::string classes(const std::string& style, bool fault, bool assumed = false) {
  return style + (assumed ? " assumed" : "") + (fault ? " fault" : "");
}

// "/>", or a tip inside.
std::string closing(const char* element, const std::string& tip) {
  if (tip.empty()) return "/>\n";
  return format("><title>{}</title></{}>\n", xml_escaped(tip), element);
}

std::string path_of(const PictureLine& line) {
  std::string d;
  for (size_t i = 0; i < line.points.size(); ++i) {
    const char* step = i == 0 ? "M" : line.curve ? (i == 1 ? "C" : "") : "L";
    d += format("{}{}{:.1f} {:.1f}", i > 0 ? " " : "", step, line.points[i].x, line.points[i].y);
  }
  return d;
}

}  // namespace

double text_width(const std::string& text, double size, bool bold) {
  // DejaVu Sans, rounded up.
  double width = 0;
  for (const char c : text) {
    if (std::string_view(" .,:;|!'ijl/").find(c) != std::string_view::npos)
      width += 0.35;
    else if (std::string_view("frt()[]<>-_").find(c) != std::string_view::npos)
      width += c == '<' || c == '>' ? 0.84 : c == '_' ? 0.51 : 0.42;
    else if (std::string_view("mwMW%@").find(c) != std::string_view::npos)
      width += 1.0;
    else
      width += c >= 'A' && c <= 'Z' ? 0.74 : 0.64;
  }
  return width * size * (bold ? 1.12 : 1);
}

std::string fitted_text(const std::string& text, double width, double size, bool bold) {
  if (text_width(text, size, bold) <= width) return text;
  std::string part = text;
  while (!part.empty() && text_width(part + "...", size, bold) > width) part.pop_back();
  return part + "...";
}

Box PictureText::box() const {
  const double w = text_width(text, size, bold || fault);
  return {centred ? at.x - w / 2 : at.x, at.y - size * 0.8, w, size * 1.05};
}

std::string write_svg(const Picture& picture) {
  std::string svg = format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
      picture.width, picture.height);
  svg += format("<title>{}</title>\n<style>{}</style>\n", xml_escaped(picture.title), kStyle);
  svg += "<rect class=\"page\" x=\"0\" y=\"0\" width=\"100%\" height=\"100%\"/>\n";
  const auto add_box = [&](const PictureBox& each) {
    svg += format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"{}\"",
        classes(each.style, each.fault, each.assumed), each.box.x, each.box.y, each.box.w,
        each.box.h,
        each.style == "cpu"              ? 10
        : each.style.starts_with("heat") ? 1
                                         : 5);
    svg += closing("rect", each.tip);
  };
  for (const PictureBox& each : picture.boxes)
    if (each.style == "cpu") add_box(each);
  for (const PictureLine& line : picture.lines)
    svg += format("<path class=\"{}\" stroke-width=\"{:.1f}\" d=\"{}\"",
                  classes(line.style, line.fault), line.width, path_of(line)) +
           closing("path", line.tip);
  for (const PictureBox& each : picture.boxes)
    if (each.style != "cpu") add_box(each);
  for (const PictureText& text : picture.texts)
    svg += format(
        "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\"{}{}{}>{}</text>\n",
        classes(text.style, text.fault), text.at.x, text.at.y, text.size,
        text.bold ? " font-weight=\"bold\"" : "", text.centred ? " text-anchor=\"middle\"" : "",
        text.turned ? format(" transform=\"rotate(-50 {:.1f} {:.1f})\"", text.at.x, text.at.y) : "",
        xml_escaped(text.text));
  return svg + "</svg>\n";
}

}  // namespace collctl::cmd
