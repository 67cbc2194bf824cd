//! The search without JavaScript: a form, and links to the objects that were found.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, Response, Uri};

use crate::answer::{content, escaped};
use crate::app::App;
use crate::backend::{Search, Snapshot, Subject};
use crate::body::Parameters;
use crate::guard::POLICY_OF_FORM;
use crate::problem::{Kind, Problem};

/// Objects listed when nothing is searched for.
const LISTED: usize = 24;

/// A search form, and what was found.
#[utoipa::path(get, path = "/plain", params(("store" = Option<String>, Query), ("name" = Option<String>, Query),
    ("k" = Option<usize>, Query)), responses((status = 200, content_type = "text/html")))]
pub async fn plain(State(app): State<Arc<App>>, uri: Uri) -> Result<Response<Body>, Problem> {
    let mut parameters = Parameters::new(&uri)?;
    let names = app.backend.stores();
    let none = || Problem::new(Kind::NOT_FOUND, "the server has no store");
    let store = parameters.text("store").or_else(|| names.first().cloned()).ok_or_else(none)?;
    let name = parameters.text("name");
    let k = parameters.parsed("k", "a number of objects")?.unwrap_or(12_usize);
    parameters.check()?;
    if k == 0 || k > app.limits().k {
        return Err(Problem::new(Kind::VALUES, format!("`k` is from 1 to {}", app.limits().k)));
    }
    let snapshot = app.store(&store)?;
    let mut page = head(&names, &store, name.as_deref(), k);
    match &name {
        None => {
            let listing = snapshot.list(&crate::backend::Filter::default(), None, LISTED);
            page.push_str("<h2>Some objects</h2>\n<ol>\n");
            listing.objects.iter().for_each(|object| item(&mut page, &snapshot, &store, object.id, None, k));
        }
        Some(name) => match snapshot.find(name) {
            None => {
                let near = snapshot.similar(name);
                let near = near
                    .map_or_else(String::new, |near| format!(" Did you mean {}?", link(&store, &near, k)));
                let _ = writeln!(page, "<p>There is no object <b>{}</b>.{near}</p>\n<ol>", escaped(name));
            }
            Some(id) => {
                let search = Search {
                    subject: Subject::Object(id),
                    k,
                    range: None,
                    class: None,
                    subset: None,
                    probes: None,
                };
                let found = app.compute(Arc::clone(&snapshot).search(search)).await?;
                let _ = writeln!(page, "<h2>Nearest to {}</h2>\n<ol>", escaped(name));
                for found in found {
                    item(&mut page, &snapshot, &store, found.id, Some(found.distance), k);
                }
            }
        },
    }
    page.push_str("</ol>\n</html>\n");
    let mut response = content("text/html; charset=utf-8", page);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY_OF_FORM));
    Ok(response)
}

fn head(names: &[String], store: &str, name: Option<&str>, k: usize) -> String {
    let mut options = String::new();
    for known in names {
        let selected = if known == store { " selected" } else { "" };
        let _ = write!(options, "<option{selected}>{}</option>", escaped(known));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Boxwork: search</title>\n<h1>Search</h1>\n\
         <form action=\"/plain\" method=\"get\">\n<label>Store <select name=\"store\">{options}</select></label>\n\
         <label>Object <input name=\"name\" value=\"{}\"></label>\n\
         <label>Results <input name=\"k\" type=\"number\" min=\"1\" value=\"{k}\"></label>\n\
         <button>Search</button>\n</form>\n",
        escaped(name.unwrap_or_default())
    )
}

fn link(store: &str, name: &str, k: usize) -> String {
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("store", store)
        .append_pair("name", name)
        .append_pair("k", &k.to_string())
        .finish();
    format!("<a href=\"/plain?{}\">{}</a>", escaped(&query), escaped(name))
}

fn item(
    page: &mut String,
    snapshot: &Arc<dyn Snapshot>,
    store: &str,
    id: u64,
    distance: Option<f64>,
    k: usize,
) {
    let Some(object) = snapshot.object(id) else { return };
    page.push_str("<li>");
    if snapshot.has_images() {
        let segment: String =
            percent_encoding::utf8_percent_encode(store, percent_encoding::NON_ALPHANUMERIC).collect();
        let _ = write!(
            page,
            "<img src=\"/v1/stores/{segment}/objects/{id}/thumbnail?size=96\" width=\"96\" height=\"96\" alt=\"{}\" \
             loading=\"lazy\"> ",
            escaped(&object.name)
        );
    }
    page.push_str(&link(store, &object.name, k));
    if let Some(distance) = distance {
        let _ = write!(page, " at {distance:.6}");
    }
    page.push_str("</li>\n");
}
